import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { CommandError } from './failure.ts';

/** Address of an API that was started without a PORT. */
export const URL_DEFAULT = 'http://127.0.0.1:8283';

/** Tells whether a text is the address of a server. */
export function isAddress(text: string): boolean {
  return URL.canParse(text) && /^https?:/.test(text);
}

/** Settings that `nightshift config set` keeps. */
export type FileSettings = { readonly url?: string; readonly api_key?: string };

/** Reads the settings of the file; none without the file. Throws a usage error if it is no JSON. */
export function readSettings(file: string): FileSettings {
  if (!existsSync(file)) return {};
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as FileSettings;
  } catch {
    throw new CommandError(`${file} is no JSON. Mend it, or remove it and run nightshift config set again.`);
  }
}

/** Writes the settings, readable by this user only: they may hold the key. */
export function writeSettings(file: string, settings: FileSettings): void {
  mkdirSync(dirname(file), { recursive: true });
  // A file that is there would keep its rights: a new one takes its place.
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(settings, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}
