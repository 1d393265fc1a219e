import { expect, test } from 'vitest';
import { sendJson } from '../../../libs/client/test/server.ts';
import { serveCommand } from './command.ts';

test.each([
  [['api', 'POST', '/v1/blocks', '-d', '@/nowhere/work.jsonl']],
  [['agents', 'append', '--file', '/nowhere/work.jsonl', '--json']],
])('a missing file is told as such: %j', async (args) => {
  const { run, received } = await serveCommand((_, response) => sendJson(response, {}));
  const { exitCode, stderr } = await run(...args);
  expect([exitCode, stderr]).toEqual([
    2,
    expect.stringContaining('/nowhere/work.jsonl: The file does not exist. Check its path.'),
  ]);
  expect([stderr.includes('trying again'), received]).toEqual([false, []]);
});
