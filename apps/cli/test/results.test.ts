import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { serveCommand } from './command.ts';
import { makeFolder } from './folder.ts';

let file: string;
beforeEach(() => {
  file = join(makeFolder(), 'r.jsonl');
});

const line = (place: number): string =>
  `${JSON.stringify({ custom_id: `t-${place}`, cursor: `key.${place}` })}\n`;
/** Serves a batch of three runs behind a cursor. */
const serveResults = (count = 3) =>
  serveCommand(({ url }, response) => {
    const from = Number(url.searchParams.get('after')?.split('.')[1] ?? 0);
    const end = { end: { count, complete: true, cursor: 'key.3' } };
    response.end([1, 2, 3].slice(from).map(line).join('') + `${JSON.stringify(end)}\n`);
  });

test('a part with other lines than the API counts is downloaded anew', async () => {
  const { run, received } = await serveResults();
  writeFileSync(`${file}.part`, line(1) + line(1) + line(2));
  const { exitCode, stderr } = await run('results', 'job-1', '-o', file);
  expect([exitCode, stderr]).toEqual([
    0,
    expect.stringContaining('has other lines than the API counts; downloading anew'),
  ]);
  expect(received.map(({ url }) => url.searchParams.get('after'))).toEqual(['key.2', null]);
  expect(readFileSync(file, 'utf8')).toBe(line(1) + line(2) + line(3));
});

test('a whole download that does not fit leaves no part to go on behind', async () => {
  const { run } = await serveResults(4);
  const { exitCode, stderr } = await run('results', 'job-1', '-o', file);
  expect([exitCode, stderr]).toEqual([
    1,
    expect.stringContaining('counts 4 runs, but 3 came. Download them again'),
  ]);
  expect([existsSync(file), existsSync(`${file}.part`)]).toEqual([false, false]);
});
