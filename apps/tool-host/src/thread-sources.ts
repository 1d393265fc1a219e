import { readFile, realpath } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Script } from 'node:vm';

/** TypeScript modules with their types removed, by URL. */
export type ThreadSources = ReadonlyMap<string, string>;

const THREAD_FILE = fileURLToPath(new URL('./thread.ts', import.meta.url));
const RELATIVE_IMPORT = /\b(?:from|import)\s*['"](\.{1,2}\/[^'"]+\.ts)['"]/g;
const MODULE_SYNTAX = /^\s*(?:export|import)\b/m;

/**
 * Removes the types of the threads' own code, of these files, and of what they import by a relative path. Done here
 * because a thread that does it loads a compiler first, which takes ten megabytes and twice the time of the rest of
 * its start. Never rejects: what cannot be read or stripped is left out, and the thread that imports it says why.
 */
export async function readThreadSources(files: readonly string[]): Promise<ThreadSources> {
  const sources = new Map<string, string>();
  const seen = new Set<string>();
  const waiting = [THREAD_FILE, ...files.filter((file) => file.endsWith('.ts'))];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    try {
      // A thread knows a module by the URL of the file that a link leads to.
      const path = await realpath(file);
      const source = stripTypeScriptTypes(await readFile(path, 'utf8'));
      if (!isEsModule(source)) continue;
      sources.set(pathToFileURL(path).href, source);
      for (const [, name = ''] of source.matchAll(RELATIVE_IMPORT))
        waiting.push(resolve(dirname(path), name));
    } catch {
      continue;
    }
  }
  return sources;
}

/** What does not compile as a script but imports or exports; the same is decided by Node where no package.json says. */
function isEsModule(source: string): boolean {
  if (!MODULE_SYNTAX.test(source)) return false;
  try {
    new Script(source);
    return false;
  } catch {
    return true;
  }
}
