import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CommandError, EXIT } from './failure.ts';

/**
 * Opens a text in the user's editor and returns the edited text. The file is readable by this user only, and removed.
 * Throws: a command error if the editor cannot start or ends with an error; nothing has been changed then.
 */
export async function editText(editor: string, text: string, name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'nightshift-edit-'));
  const file = join(folder, name);
  try {
    await writeFile(file, text, { mode: 0o600 });
    const code = await runEditor(editor, file);
    if (code !== 0)
      throw new CommandError(
        `The editor '${editor}' ended with ${code}, so nothing was changed. VISUAL or EDITOR names another editor.`,
        EXIT.failed,
      );
    return await readFile(file, 'utf8');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The setting may hold flags, as `code --wait` does. */
function runEditor(editor: string, file: string): Promise<number | string> {
  const isWindows = process.platform === 'win32';
  const child = isWindows
    ? spawn(`${editor} "${file}"`, { stdio: 'inherit', shell: true })
    : spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve(code ?? signal ?? 1));
  });
}

/** Keeps an edited text that could not be stored, and returns its file. */
export async function keepText(text: string, name: string): Promise<string> {
  const file = join(await mkdtemp(join(tmpdir(), 'nightshift-kept-')), name);
  await writeFile(file, text, { mode: 0o600 });
  return file;
}
