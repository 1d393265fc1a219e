import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { referencePages, stalePages, writePages } from '../../scripts/docs/reference-pages.ts';

const COMMITTED = join(import.meta.dirname, '../../docs/reference');

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'nightshift-docs-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

test.each(referencePages())(
  'B133: docs/reference/$file is what its sources say (else: npm run gen-docs)',
  ({ file, text }) => {
    expect(readFileSync(join(COMMITTED, file), 'utf8')).toBe(text);
  },
);

test('the pages are the same however often they are made', () => {
  expect(referencePages()).toEqual(referencePages());
});

test('a page that is missing or differs by a byte is stale, and writing mends exactly those', () => {
  const directory = temporaryDirectory();
  expect(stalePages(directory)).toEqual(referencePages());
  expect(writePages(join(directory, 'new'))).toEqual(referencePages());
  expect(stalePages(join(directory, 'new'))).toEqual([]);

  writePages(directory);
  const untouched = statSync(join(directory, 'states.md')).mtimeMs;
  writeFileSync(join(directory, 'errors.md'), `${readFileSync(join(directory, 'errors.md'), 'utf8')} `);
  expect(stalePages(directory).map(({ file }) => file)).toEqual(['errors.md']);
  expect(writePages(directory).map(({ file }) => file)).toEqual(['errors.md']);
  expect(stalePages(directory)).toEqual([]);
  expect(statSync(join(directory, 'states.md')).mtimeMs).toBe(untouched);
});

test('a page ends with one line end, and no line of it with a space', () => {
  for (const { text } of referencePages()) {
    expect(text).toMatch(/[^\n]\n$/);
    expect(text).not.toMatch(/[ \t]\n/);
    expect(text).not.toContain('undefined');
  }
});
