import { expect, test } from 'vitest';
import { messageOf, plainHeaders, request, roundTrip, running } from './support/running.ts';
import type { BatchRequest, ResultLine } from './support/running.ts';

const plan = '{"tool":"look","args":{"n":1}}\n{"tool":"look","args":{"n":2},"parallel":true}';
const tools = [
  { name: 'look', input_schema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } },
];
const items: BatchRequest[] = Array.from({ length: 60 }, (_, i) =>
  request(
    `id-${i}`,
    i % 3 === 0 ? `task ${i}\n${plan}` : `⟦sim:${i % 3 === 1 ? 'toolLoop' : 'thinking'}⟧ ${i}`,
    { tools },
  ),
);

const contents = (lines: readonly ResultLine[]): Map<string, string> =>
  new Map(lines.map((line) => [line.custom_id, JSON.stringify(messageOf(line))]));

test('the same requests in another order, in other batches, get the same answers', async () => {
  const settings = { outcomes: { errored: 0 } };
  const together = contents(await roundTrip(await running({ settings }), items));
  const started = await running({ settings });
  const reversed = items.toReversed();
  const apart = new Map([
    ...contents(await roundTrip(started, reversed.slice(0, 20))),
    ...contents(await roundTrip(started, reversed.slice(20))),
  ]);
  expect(apart.size).toBe(60);
  for (const [id, message] of together) expect(apart.get(id)).toBe(message);
});

test('the same request under another custom id gets the same content, tool ids included', async () => {
  const started = await running();
  const [first] = await roundTrip(started, [items[0] as BatchRequest]);
  const [again] = await roundTrip(started, [{ ...(items[0] as BatchRequest), custom_id: 'another' }]);
  expect(messageOf(again).content).toEqual(messageOf(first).content);
  expect(messageOf(again).id).not.toBe(messageOf(first).id);
  const ids = messageOf(first).content.map((block) => (block.type === 'tool_use' ? block.id : ''));
  expect(ids).toEqual([expect.stringMatching(/^toolu_01.{22}$/), expect.stringMatching(/^toolu_01.{22}$/)]);
  expect(new Set(ids).size).toBe(2);
});

test('another seed gives other ids and other fates', async () => {
  const settings = { outcomes: { errored: 0.5 } };
  const fates = async (seed: string): Promise<string> => {
    const lines = await roundTrip(await running({ seed, settings }), items);
    return lines
      .map(({ custom_id, result }) => `${custom_id} ${result.type}`)
      .sort()
      .join();
  };
  expect(await fates('one')).toBe(await fates('one'));
  expect(await fates('one')).not.toBe(await fates('two'));
});

test('result lines are shuffled in the same way every time', async () => {
  const order = async (): Promise<string[]> =>
    (await roundTrip(await running(), items)).map(({ custom_id }) => custom_id);
  const first = await order();
  expect(first).not.toEqual(items.map(({ custom_id }) => custom_id));
  expect(await order()).toEqual(first);
});

test('after a reset a rule without an id fires on the same requests again', async () => {
  const { simulator } = await running();
  const statuses = async (): Promise<number[]> => {
    simulator.control.addRule({
      op: 'list',
      match: { probability: 0.5 },
      action: { type: 'status', code: 529 },
    });
    const seen: number[] = [];
    for (let i = 0; i < 20; i++) {
      seen.push((await fetch(`${simulator.apiUrl}/v1/messages/batches`, { headers: plainHeaders })).status);
    }
    return seen;
  };
  const first = await statuses();
  expect(new Set(first)).toEqual(new Set([200, 529]));
  await simulator.control.reset();
  expect(await statuses()).toEqual(first);
});

test('after a reset the rate limit has its full budget', async () => {
  const { simulator } = await running({ settings: { limits: { requests_per_minute: 1 } } });
  const list = async (): Promise<number> =>
    (await fetch(`${simulator.apiUrl}/v1/messages/batches`, { headers: plainHeaders })).status;
  expect([await list(), await list()]).toEqual([200, 429]);
  await simulator.control.reset();
  expect([await list(), await list()]).toEqual([200, 429]);
});
