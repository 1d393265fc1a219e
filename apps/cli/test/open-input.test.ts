import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { bytesOfInput, inputOf, textOfInput } from '../src/input/open-input.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nightshift-input-'));
});
afterEach(() => {
  rmSync(dir, { recursive: true });
});

test.each([
  ['tasks.jsonl', 'jsonl', 'identity'],
  ['tasks.ndjson.gz', 'jsonl', 'gzip'],
  ['a.b/rows.csv.zst', 'csv', 'zstd'],
  ['Batch.JSON', 'json', 'identity'],
] as const)('%s is %s, %s', (file, type, encoding) => {
  expect(inputOf(file, undefined)).toMatchObject({ type, encoding });
});

test('standard input is JSONL unless --type says otherwise', () => {
  expect(inputOf('-', undefined)).toMatchObject({ path: null, type: 'jsonl' });
  expect(inputOf('-', 'csv')).toMatchObject({ type: 'csv' });
  expect(() => inputOf('tasks.txt', undefined)).toThrow(/tasks\.txt does not tell its kind/);
});

test('a packed file is unpacked, and a cut one is refused', async () => {
  for (const [end, pack] of [
    ['gz', gzipSync],
    ['zst', zstdCompressSync],
  ] as const) {
    const file = join(dir, `tasks.jsonl.${end}`);
    writeFileSync(file, pack('{}\n'));
    expect(await textOfInput(inputOf(file, undefined))).toBe('{}\n');
    writeFileSync(file, pack('{}\n'.repeat(99)).subarray(0, 12));
    await expect(textOfInput(inputOf(file, undefined))).rejects.toThrow(/is cut, or is not .*Pack it again/);
  }
});

test('a file that changes while it is read is refused', async () => {
  const file = join(dir, 'tasks.jsonl');
  writeFileSync(file, 'x'.repeat(200_000));
  const bytes = bytesOfInput(inputOf(file, undefined));
  await bytes.next();
  appendFileSync(file, 'more');
  const rest = async (): Promise<void> => {
    for await (const _ of bytes);
  };
  await expect(rest()).rejects.toThrow(/changed while it was read; nothing was stored/);
});
