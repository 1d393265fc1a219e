import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { beforeEach, expect, test } from 'vitest';
import { completePart, findPart, writePart } from '../src/results-file.ts';
import { makeFolder } from './folder.ts';

let file: string;
beforeEach(() => {
  file = join(makeFolder(), 'r.jsonl');
});

const line = (cursor: string): string => `${JSON.stringify({ text: 'ä'.repeat(40_000), cursor })}\n`;
async function* texts(...all: readonly string[]): AsyncGenerator<string> {
  for (const text of all) yield await Promise.resolve(text);
}

test('a file has its name when it is complete, and not before', async () => {
  await writePart(file, texts(line('1'), line('2')), undefined);
  expect(existsSync(file)).toBe(false);
  await completePart(file);
  expect(readFileSync(file, 'utf8')).toBe(line('1') + line('2'));
});

test('a part goes on behind its last complete line', async () => {
  writeFileSync(`${file}.part`, `${line('1')}${line('2')}{"text":"cut`);
  const part = await findPart(file);
  expect(part).toMatchObject({ lines: 2, cursor: '2' });
  await writePart(file, texts(line('3')), part);
  await completePart(file);
  expect(readFileSync(file, 'utf8')).toBe(line('1') + line('2') + line('3'));
});

test('a part of something else, or without a line, is not continued', async () => {
  expect(await findPart(file)).toBeUndefined();
  writeFileSync(`${file}.part`, '{"cut');
  expect(await findPart(file)).toBeUndefined();
  writeFileSync(`${file}.part`, 'no json\n');
  expect(await findPart(file)).toBeUndefined();
});

test('a name that ends with .gz is packed', async () => {
  await writePart(`${file}.gz`, texts(line('1')), undefined);
  await completePart(`${file}.gz`);
  expect(gunzipSync(readFileSync(`${file}.gz`)).toString()).toBe(line('1'));
});
