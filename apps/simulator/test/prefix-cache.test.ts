import { describe, expect, test } from 'vitest';
import { createPrefixCache } from '../src/cache/prefix-cache.ts';
import { createPrefixReader } from '../src/cache/prefixes.ts';
import type { Prefix } from '../src/cache/prefixes.ts';
import { findModel } from '../src/models.ts';
import type { ContentBlock, Message, MessageParams } from '../src/scripts/script.ts';
import { tokensOfBytes } from '../src/tokens.ts';
import { usageOf } from '../src/usage.ts';
import type { Usage } from '../src/usage.ts';
import { all, messageOf, roundTrip, running } from './support/running.ts';
import type { BatchRequest, Running } from './support/running.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } } as const;
const short = { cache_control: { type: 'ephemeral' } } as const;
/** About 1,250 tokens. */
const long = (topic: string): string => `${topic} `.repeat(5_000 / (topic.length + 1));
const text = (value: string, mark: object = {}): ContentBlock => ({ type: 'text', text: value, ...mark });
const user = (...content: ContentBlock[]): Message => ({ role: 'user', content });
const tool = (name: string): { name: string; input_schema: { type: string } } => ({
  name,
  input_schema: { type: 'object' },
});

function prompt(more: Partial<MessageParams> = {}): MessageParams {
  return {
    model: 'claude-opus-5',
    max_tokens: 100,
    tools: [tool('look')],
    system: [text(long('be kind'), hour)],
    messages: [user(text(long('what is new'), hour))],
    ...more,
  };
}

/** A cache on a clock of its own; `ask` returns the usage of a request. */
function cacheAt(): {
  ask(params: MessageParams, atMs?: number, how?: { missed?: boolean; workspace?: string }): Usage;
  cache: ReturnType<typeof createPrefixCache>;
} {
  let nowMs = 0;
  const cache = createPrefixCache(() => nowMs);
  return {
    cache,
    ask(params, atMs = nowMs, { missed = false, workspace = 'default' } = {}) {
      nowMs = atMs;
      const model = findModel(params.model);
      if (model === undefined) throw new Error(`the model table lacks ${params.model}`);
      const bytes = Buffer.byteLength(JSON.stringify(params));
      const prefixes = createPrefixReader(workspace).prefixesOf(params, model, bytes);
      return usageOf(tokensOfBytes(bytes), 1, prefixes, cache.use(prefixes, atMs, missed));
    },
  };
}

const inputOf = (usage: Usage): number =>
  usage.input_tokens + usage.cache_read_tokens + usage.cache_write_1h_tokens + usage.cache_write_5m_tokens;
const writtenOf = (usage: Usage): number => usage.cache_write_1h_tokens + usage.cache_write_5m_tokens;

describe('the prompt cache', () => {
  test('the first request writes up to its last mark, each part with its time to live; the second reads all', () => {
    const { ask } = cacheAt();
    const params = prompt({
      messages: [user(text(long('what is new'), short)), user(text(long('after the mark')))],
    });
    const first = ask(params);
    expect(first.cache_read_tokens).toBe(0);
    expect(first.cache_write_1h_tokens).toBeGreaterThan(1_250);
    expect(first.cache_write_5m_tokens).toBeGreaterThan(1_200);
    expect(first.input_tokens).toBeGreaterThan(1_200);
    const second = ask(params);
    expect(second).toMatchObject({ cache_read_tokens: writtenOf(first), input_tokens: first.input_tokens });
    expect(writtenOf(second)).toBe(0);
    for (const usage of [first, second])
      expect(inputOf(usage)).toBe(Math.ceil(Buffer.byteLength(JSON.stringify(params)) / 4));
  });

  test('a request without marks neither reads nor writes', () => {
    const { ask, cache } = cacheAt();
    ask(prompt());
    const size = cache.size();
    const plain = ask(prompt({ system: long('be kind'), messages: [user(text(long('what is new')))] }));
    expect(plain).toMatchObject({ cache_read_tokens: 0, cache_write_1h_tokens: 0 });
    expect(cache.size()).toBe(size);
  });

  test('a conversation that grows reads all before, and writes and pays only the new blocks', () => {
    const { ask } = cacheAt();
    const first = ask(prompt());
    const grown = prompt({
      messages: [
        user(text(long('what is new'))),
        { role: 'assistant', content: [text(long('nothing'))] },
        user(text(long('and now'), hour)),
      ],
    });
    const second = ask(grown);
    expect(second.cache_read_tokens).toBe(writtenOf(first));
    expect(second.cache_write_1h_tokens).toBeGreaterThan(2_400);
    expect(second.cache_write_1h_tokens).toBeLessThan(2_700);
  });

  test('an entry exists only where an earlier request had a mark', () => {
    const { ask } = cacheAt();
    ask(
      prompt({ system: [text(long('be kind')), text(long('of Ann'), hour)], messages: [user(text('hi'))] }),
    );
    const other = ask(
      prompt({
        system: [text(long('be kind'), hour), text(long('of Bob'), hour)],
        messages: [user(text('hi'))],
      }),
    );
    expect(other.cache_read_tokens).toBe(0);
    const third = ask(
      prompt({
        system: [text(long('be kind'), hour), text(long('of Eve'), hour)],
        messages: [user(text('hi'))],
      }),
    );
    expect(third.cache_read_tokens).toBeGreaterThan(1_250);
    expect(third.cache_write_1h_tokens).toBeGreaterThan(1_200);
  });

  test.each([
    [19, true],
    [20, false],
  ])('%i blocks after the last entry, a look-up finds it: %s', (added, found) => {
    const { ask } = cacheAt();
    const start = text(long('what is new'));
    const tail = Array.from({ length: added }, (_, i) => text(`block ${i}`, i === added - 1 ? hour : {}));
    ask(prompt({ system: 'be kind', messages: [user({ ...start, ...hour })] }));
    const usage = ask(prompt({ system: 'be kind', messages: [user(start, ...tail)] }));
    expect(usage.cache_read_tokens > 0).toBe(found);
  });

  test('the automatic mark stands at the last block that can be cached', () => {
    const { ask } = cacheAt();
    const messages = [user(text(long('what is new')), text(''))];
    const first = ask({ ...prompt({ system: 'be kind', messages }), ...hour });
    expect(first.cache_write_1h_tokens).toBeGreaterThan(1_200);
    const second = ask(prompt({ system: 'be kind', messages: [user(text(long('what is new'), short))] }));
    expect(second.cache_read_tokens).toBe(first.cache_write_1h_tokens);
  });

  test('marks, and strings in place of text blocks, do not change the prefix', () => {
    const { ask } = cacheAt();
    ask(prompt());
    const same = prompt({ tools: [{ ...tool('look'), ...hour }] });
    const usage = ask({
      ...same,
      system: long('be kind'),
      messages: [{ role: 'user', content: long('what is new') }],
      ...hour,
    });
    expect(writtenOf(usage)).toBe(0);
    expect(usage.cache_read_tokens).toBeGreaterThan(2_500);
  });

  test.each([
    ['5 minutes', short, 5 * MINUTE_MS],
    ['1 hour', hour, HOUR_MS],
  ])('an entry lives for %s after its last read', (_name, mark, ttlMs) => {
    const { ask } = cacheAt();
    const params = prompt({ system: [text(long('be kind'), mark)], messages: [user(text('hi'))] });
    const times = [0, ttlMs - 1, 2 * ttlMs - 2, 3 * ttlMs - 2];
    const reads = times.map((atMs) => ask(params, atMs).cache_read_tokens > 0);
    expect(reads).toEqual([false, true, true, false]);
  });

  test('a read of a long prefix refreshes its marked parts too', () => {
    const { ask } = cacheAt();
    for (const atMs of [0, 50 * MINUTE_MS, 100 * MINUTE_MS]) ask(prompt(), atMs);
    const other = ask(prompt({ messages: [user(text(long('something else'), hour))] }), 150 * MINUTE_MS);
    expect(other.cache_read_tokens).toBeGreaterThan(1_250);
  });

  test('a prefix below the smallest cacheable size of the model is plain input', () => {
    const { ask, cache } = cacheAt();
    const params = prompt({ system: [text('word '.repeat(300), hour)], messages: [user(text('hi'))] });
    expect(writtenOf(ask(params))).toBe(0);
    expect(cache.size()).toBe(0);
    // Its own mark is too early, the later one is not.
    const longer = { ...params, messages: [user(text(long('what is new'), hour))] };
    expect(writtenOf(ask(longer))).toBeGreaterThan(1_500);
    expect(cache.size()).toBe(1);
    // About 2,500 tokens: enough for claude-opus-5, too little for claude-haiku-4-5.
    expect(writtenOf(ask(prompt({ model: 'claude-haiku-4-5' })))).toBe(0);
  });

  test('another workspace, model, or tool reads nothing', () => {
    const { ask } = cacheAt();
    ask(prompt());
    expect(ask(prompt(), 0, { workspace: 'other' }).cache_read_tokens).toBe(0);
    expect(ask(prompt({ model: 'claude-opus-4-8' })).cache_read_tokens).toBe(0);
    expect(ask(prompt({ tools: [tool('look'), tool('add')] })).cache_read_tokens).toBe(0);
    expect(ask(prompt()).cache_read_tokens).toBeGreaterThan(2_500);
  });

  test.each<[string, Partial<MessageParams>]>([
    ['tool choice', { tool_choice: { type: 'none' } }],
    ['thinking', { thinking: { type: 'adaptive' } }],
    ['effort', { output_config: { effort: 'low' } }],
    [
      'presence of images',
      {
        messages: [
          user(text(long('what is new'), hour)),
          user({ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }),
        ],
      },
    ],
  ])('another %s reads tools and system prompt, and no message', (_name, change) => {
    const { ask } = cacheAt();
    const first = ask(prompt());
    const changed = ask(prompt(change));
    expect(changed.cache_read_tokens).toBeGreaterThan(1_250);
    expect(changed.cache_read_tokens).toBeLessThan(1_400);
    expect(changed.cache_write_1h_tokens).toBe(writtenOf(first) - changed.cache_read_tokens);
  });

  test('a miss writes its whole prefix again', () => {
    const { ask } = cacheAt();
    const first = ask(prompt());
    expect(ask(prompt(), 0, { missed: true })).toEqual(first);
    expect(ask(prompt()).cache_read_tokens).toBe(writtenOf(first));
  });

  test('uses of a session take effect with its commit alone', () => {
    const cache = createPrefixCache(() => 0);
    const mark: readonly Prefix[] = [{ key: 7, tokens: 2_000, ttlMs: HOUR_MS }];
    const [failed, again] = [cache.open(), cache.open()];
    expect([failed.use(mark, 0, false), failed.use(mark, 1, false)]).toEqual([0, 2_000]);
    failed.end();
    expect(again.use(mark, 2, false)).toBe(0);
    again.commit();
    expect(cache.use(mark, 3, false)).toBe(2_000);
  });

  test('expired entries are dropped', () => {
    let nowMs = 0;
    const cache = createPrefixCache(() => nowMs);
    const mark = (key: number): readonly Prefix[] => [{ key, tokens: 2_000, ttlMs: 5 * MINUTE_MS }];
    for (; nowMs < 100_000_000; nowMs += 1_000) cache.use(mark(nowMs), nowMs, false);
    expect(cache.size()).toBeLessThan(10_000);
    expect(cache.use(mark(nowMs - 1_000), nowMs, false)).toBe(2_000);
  });
});

describe('requests of batches', () => {
  const items = (count: number, more: Partial<MessageParams> = {}): BatchRequest[] =>
    Array.from({ length: count }, (_, i) => ({
      custom_id: `r-${i}`,
      params: prompt({ messages: [user(text(`${i}: hello`))], ...more }) as unknown as BatchRequest['params'],
    }));
  const started = (settings: object = {}): Promise<Running> =>
    running({ startMs: 0, settings: { cache_miss: 0, latency: `fixed:${10 * MINUTE_MS}`, ...settings } });
  async function usages(
    { client, simulator }: Running,
    requests: BatchRequest[],
  ): Promise<
    Map<string, { cache_read_input_tokens: number | null; cache_creation_input_tokens: number | null }>
  > {
    const { id } = await client.messages.batches.create({ requests });
    await simulator.control.advance(10 * MINUTE_MS);
    const found = new Map<string, ReturnType<typeof messageOf>['usage']>();
    for await (const line of await client.messages.batches.results(id))
      found.set(line.custom_id, messageOf(line).usage);
    return found;
  }
  const readers = (found: Awaited<ReturnType<typeof usages>>): string[] =>
    [...found].filter(([, usage]) => (usage.cache_read_input_tokens ?? 0) > 0).map(([id]) => id);

  test('the first that is processed writes the shared prefix, all others read it', async () => {
    const house = await started();
    const found = await usages(house, items(50));
    expect(readers(found)).toHaveLength(49);
    const { totals } = house.simulator.control.ledger();
    const sum = (of: 'cache_read_input_tokens' | 'cache_creation_input_tokens'): number =>
      [...found.values()].reduce((before, usage) => before + (usage[of] ?? 0), 0);
    expect(totals.cache_read_tokens).toBe(sum('cache_read_input_tokens'));
    expect(totals.cache_write_1h_tokens).toBe(sum('cache_creation_input_tokens'));
    const { input_tokens, cache_write_1h_tokens, cache_read_tokens, output_tokens } = totals;
    const list = input_tokens * 5 + cache_write_1h_tokens * 10 + cache_read_tokens * 0.5 + output_tokens * 25;
    expect(totals.usd).toBeCloseTo(list / 2 / 1_000_000, 12);
  });

  test('a batch within the hour reads the entries of the batch before it; one after it does not', async () => {
    const house = await started();
    await usages(house, items(1));
    await house.simulator.control.advance(30 * MINUTE_MS);
    expect(readers(await usages(house, items(3)))).toHaveLength(3);
    await house.simulator.control.advance(61 * MINUTE_MS);
    expect(readers(await usages(house, items(1)))).toEqual([]);
  });

  test('five minutes pass within a batch of hours', async () => {
    const house = await started({ latency: `fixed:${10 * HOUR_MS}` });
    const short5 = items(20, { system: [text(long('be kind'), short)] });
    const { id } = await house.client.messages.batches.create({ requests: short5 });
    await house.simulator.control.advance(10 * HOUR_MS);
    expect((await house.client.messages.batches.retrieve(id)).processing_status).toBe('ended');
    const { totals } = house.simulator.control.ledger();
    expect(totals.cache_write_5m_tokens).toBeGreaterThan(10 * 1_250);
  });

  test('equal seeds give equal usages, in any order of requests and batches, and however often they are read', async () => {
    const pairs = (house: Running, requests: BatchRequest[]) =>
      usages(house, requests).then((found) => [...found].sort(([a], [b]) => (a < b ? -1 : 1)));
    const settings = { cache_miss: 0.5 };
    const one = await started(settings);
    const first = await pairs(one, items(40));
    const two = await started({ ...settings, result_order: 'submitted' });
    // Batches of other prompts are written at the same time.
    const [, second] = await Promise.all([
      two.client.messages.batches.create({
        requests: items(500, { system: [text(long('be cross'), hour)] }),
      }),
      pairs(two, items(40).toReversed()),
    ]);
    expect(second).toEqual(first);
    const [batch] = one.simulator.control.batches();
    const again: unknown[] = [];
    for await (const line of await one.client.messages.batches.results(batch?.id ?? ''))
      again.push([line.custom_id, messageOf(line).usage]);
    expect(new Map(again as [string, unknown][])).toEqual(new Map(first));
  });

  test('a fraction of the hits misses', async () => {
    const house = await started({ cache_miss: 0.3 });
    const hits = readers(await usages(house, items(300))).length;
    expect(hits).toBeGreaterThan(180);
    expect(hits).toBeLessThan(240);
  });

  test('a request that got no answer writes nothing', async () => {
    const house = await started({ outcomes: { errored: 1 } });
    await roundTrip(house, items(3));
    house.simulator.control.configure({ outcomes: { errored: 0 } });
    expect(readers(await usages(house, items(1)))).toEqual([]);
  });

  test('batches that end at the same time use the cache in the order of their ends', async () => {
    const house = await started();
    const { client, simulator } = house;
    // The first is by far the larger, so its results take longer to write.
    const [large, small] = [
      await client.messages.batches.create({ requests: items(2_000) }),
      await client.messages.batches.create({ requests: items(1) }),
    ];
    await Promise.all([large, small].map(({ id }) => simulator.control.command(id, 'end')));
    const [line] = await all(await client.messages.batches.results(small.id));
    expect(messageOf(line).usage.cache_read_input_tokens).toBeGreaterThan(1_250);
  });

  test('direct messages use the same cache in the order of their arrival', async () => {
    const house = await started();
    const { client, simulator } = house;
    await usages(house, items(1));
    const [{ params }] = items(1) as [BatchRequest];
    const ask = async () =>
      ((await client.messages.create(params as never)) as ReturnType<typeof messageOf>).usage;
    expect((await ask()).cache_read_input_tokens).toBeGreaterThan(1_250);
    simulator.control.configure({ cache_miss: 1 });
    expect(await ask()).toMatchObject({ cache_read_input_tokens: 0 });
    const { direct_messages: direct } = simulator.control.ledger();
    expect(direct.usd).toBeCloseTo(
      (direct.input_tokens * 5 +
        direct.cache_write_1h_tokens * 10 +
        direct.cache_read_tokens * 0.5 +
        direct.output_tokens * 25) /
        1_000_000,
      12,
    );
  });

  test('a reset empties the cache', async () => {
    const house = await started();
    await usages(house, items(1));
    await house.simulator.control.reset();
    house.simulator.control.configure({ cache_miss: 0 });
    expect(readers(await usages(house, items(1)))).toEqual([]);
  });
});
