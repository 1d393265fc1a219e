import { expect, test } from 'vitest';
import { selectSamples } from '../../scripts/samples/select-releases.ts';
import type { ReleaseNote } from '../../scripts/samples/sample.ts';

const text = 'A change that takes some room to describe. '.repeat(5);

function releases(...versions: string[]): ReleaseNote[] {
  return versions.map((version) => ({ version, text }));
}

function windowsOf(notes: ReleaseNote[]): string[] {
  return selectSamples({ name: '@scope/Name', license: 'MIT', releases: notes }).map(
    ({ line, from, to, notes: { length } }) => `${line}: ${from} to ${to} (${length})`,
  );
}

test('release lines are kept apart and cut newest first', () => {
  const notes = releases('1.0.0', '2.0.0', '1.10.0', '1.9.0', '2.1.0', '0.1.0', '0.2.0');
  expect(windowsOf(notes)).toEqual([
    '2.x: 2.0.0 to 2.1.0 (2)',
    '1.x: 1.0.0 to 1.10.0 (3)',
    '0.x: 0.1.0 to 0.2.0 (2)',
  ]);
});

test('a window holds at most six releases, and one alone is passed over', () => {
  const notes = releases(...Array.from({ length: 13 }, (_, i) => `1.${i}.0`));
  expect(windowsOf(notes)).toEqual(['1.x: 1.7.0 to 1.12.0 (6)', '1.x: 1.1.0 to 1.6.0 (6)']);
});

test('of many windows the newest is taken, then those that speak of breaking changes or security', () => {
  const notes = releases(...Array.from({ length: 60 }, (_, i) => `1.${i}.0`));
  const telling = notes.map((note) =>
    note.version === '1.2.0' ? { ...note, text: `${text}security` } : note,
  );
  expect(windowsOf(telling)).toEqual([
    '1.x: 1.54.0 to 1.59.0 (6)',
    '1.x: 1.48.0 to 1.53.0 (6)',
    '1.x: 1.42.0 to 1.47.0 (6)',
    '1.x: 1.0.0 to 1.5.0 (6)',
  ]);
});

test('the id is made of the package and its newest version', () => {
  const [sample] = selectSamples({
    name: '@scope/Name.js',
    license: 'MIT',
    releases: releases('1.1.0', '1.0.0'),
  });
  expect(sample?.custom_id).toBe('scope-name-js_1-1-0');
});

test('a package without releases gives no samples', () => {
  expect(windowsOf([])).toEqual([]);
});
