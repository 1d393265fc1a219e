import { Buffer } from 'node:buffer';
import { expect, test } from 'vitest';
import { withBatchLine } from '../src/input/batch-line.ts';

async function joined(parts: readonly string[], fields: object): Promise<string> {
  const bytes = async function* () {
    for (const part of parts) yield await Promise.resolve(Buffer.from(part));
  };
  const texts: string[] = [];
  for await (const part of withBatchLine(bytes(), fields, 'tasks.jsonl')) texts.push(part.toString());
  return texts.join('');
}

test('fields of flags stand before the first request, however the file is cut', async () => {
  const whole = '{"batch":{"name":"n"}}\n{"agent_id":"a"}\n{"agent_id":"b"}\n';
  for (const parts of [
    ['{"agent_id":"a"}\n{"agent_id":"b"}\n'],
    ['{"agent', '_id":"a"}', '\n{"agent_id":"b"}\n'],
  ])
    expect(await joined(parts, { name: 'n' })).toBe(whole);
});

test('flags win over the fields of the first line', async () => {
  expect(await joined(['{"batch":{"name":"old","tags":["t"]}}\n{}\n'], { name: 'new' })).toBe(
    '{"batch":{"name":"new","tags":["t"]}}\n{}\n',
  );
});

test('a first line that is no JSON is refused with its number', async () => {
  await expect(joined(['no json\n'], { name: 'n' })).rejects.toThrow(/^Line 1 of tasks\.jsonl is no JSON/);
});
