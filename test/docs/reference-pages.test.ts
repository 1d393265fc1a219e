import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { POLL_POLICY_DEFAULT } from '../../libs/agent-core/src/index.ts';
import { referencePages, stalePages, writePages } from '../../scripts/docs/reference-pages.ts';

const COMMITTED = join(import.meta.dirname, '../../docs/reference');

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'nightshift-docs-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

test.each(referencePages())(
  'docs/reference/$file matches its sources (else: npm run gen-docs)',
  ({ file, text }) => {
    expect(readFileSync(join(COMMITTED, file), 'utf8')).toBe(text);
  },
);

test('the pages are the same each time', () => {
  expect(referencePages()).toEqual(referencePages());
});

test('a missing or changed page is stale, and writing repairs only stale pages', () => {
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

test('a page ends with a line end and has no trailing spaces', () => {
  for (const { text } of referencePages()) {
    expect(text).toMatch(/[^\n]\n$/);
    expect(text).not.toMatch(/[ \t]\n/);
    expect(text).not.toContain('undefined');
  }
});

test('the pages name the slower poll interval of old provider batches', () => {
  const lines = referencePages().flatMap(({ text }) => text.split('\n'));
  const variable = lines.find((line) => line.startsWith('| `POLL_INTERVAL_MS` |'));
  expect(variable).toContain('hour');
  expect(variable).toContain(` ${POLL_POLICY_DEFAULT.poll_interval_ms_max.toLocaleString('en')}`);
  const states = lines.filter((line) => line.includes('the poll interval'));
  expect(states).toHaveLength(2);
  for (const state of states) expect(state).toContain('hour');
});

test('the page of variables says that there are more tool threads than TOOL_THREADS', () => {
  const { text = '' } = referencePages().find(({ file }) => file === 'configuration.md') ?? {};
  expect(text).toMatch(
    /^\| `TOOL_THREADS` \|[^|]*\bfast calls\b[^|]*\bWhile calls wait, fast and slow calls have up to twice this number plus one each\b/m,
  );
});
