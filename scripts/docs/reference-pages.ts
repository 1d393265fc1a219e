import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { configurationPage } from './configuration-page.ts';
import { errorsPage } from './errors-page.ts';
import { statesPage } from './states-page.ts';

/** A generated page of `docs/reference`. */
export interface ReferencePage {
  readonly file: string;
  readonly text: string;
}

/** Builds every generated page. Equal sources give equal bytes. */
export function referencePages(): readonly ReferencePage[] {
  return [
    { file: 'states.md', text: statesPage() },
    { file: 'errors.md', text: errorsPage() },
    { file: 'configuration.md', text: configurationPage() },
  ];
}

/** Returns the pages that are missing or out of date. */
export function stalePages(directory: string): readonly ReferencePage[] {
  return referencePages().filter(({ file, text }) => readOrEmpty(join(directory, file)) !== text);
}

/** Writes the pages that are out of date and returns them. */
export function writePages(directory: string): readonly ReferencePage[] {
  mkdirSync(directory, { recursive: true });
  const stale = stalePages(directory);
  for (const { file, text } of stale) writeFileSync(join(directory, file), text);
  return stale;
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
