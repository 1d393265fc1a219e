import type {} from '../../../../test/global-setup.ts';
import { readCacheUse } from '@nightshift/db';
import { afterEach, describe, expect, inject, test } from 'vitest';
import { answering, call, openHouse, recording, type House, type SentParams } from './house.ts';

let house: House;
afterEach(() => house.close());

async function open(cacheMiss: number): Promise<void> {
  house = await openHouse(inject('postgresUrl'), {
    simulator: { settings: { cache_miss: cacheMiss } },
    modules: [
      {
        name: 'look',
        description: 'Looks.',
        input_schema: { type: 'object', properties: { n: { type: 'integer' } } },
        side_effects: 'none',
        return_char_limit: 10_000,
        timeout_ms: 1_000,
      },
    ],
  });
}

const MODEL = 'claude-haiku-4-5';
/** Beyond the model's smallest cacheable prefix, at the simulator's four bytes a token. */
const LONG = 'S'.repeat(20_000);

/** Takes one batch of runs with `calls` tool calls each to its end, and returns its requests. */
async function night(runs: number, calls: number, system = LONG): Promise<readonly SentParams[]> {
  const { provider, sent } = recording(house);
  await house.submit(
    Array.from({ length: runs }, (_, index) => ({
      input: [`task ${index}`, ...Array.from({ length: calls }, (_call, n) => call('look', { n }))].join(
        '\n',
      ),
      tools: ['look'],
      blocks: { notes: `${index} `.repeat(2_000) },
      agent: { system },
    })),
  );
  await house.drive(house.worker({ provider, tools: answering() }));
  return sent;
}

/** The marks of the requests of a step: `S` static, `M` memory, `E` end; one text for all equal requests. */
const marksAt = (sent: readonly SentParams[], step: number): readonly string[] => [
  ...new Set(
    sent
      .filter(({ messages }) => messages.length === 2 * step - 1)
      .map(({ system = [], messages }) => {
        const [fixed, memory] = system.map(({ cache_control }) => cache_control !== undefined);
        const end = messages.at(-1)?.content.at(-1)?.['cache_control'] !== undefined;
        return `${fixed === true ? 'S' : ''}${memory === true ? 'M' : ''}${end ? 'E' : ''}`;
      }),
  ),
];

describe('cache marks', () => {
  test('follow the steps that runs of the definition take, from the second step of the first night on', async () => {
    await open(0);
    const first = await night(12, 5);
    expect([1, 2, 6].map((step) => marksAt(first, step))).toEqual([['S'], ['SME'], ['SME']]);
    const second = await night(12, 5);
    expect([1, 2, 6].map((step) => marksAt(second, step))).toEqual([['SME'], ['SME'], ['SME']]);
    expect((await readCacheUse(house.database.db)).get(MODEL)).toMatchObject({
      hit_rate: 1,
      read_tokens: expect.any(Number) as number,
    });
    const { totals } = house.simulator.control.ledger();
    expect(totals.cache_read_tokens).toBeGreaterThan(2 * totals.cache_write_1h_tokens);
  });

  test('are not set for a single step that shares its prompt with no other', async () => {
    await open(0);
    expect(marksAt(await night(1, 0), 1)).toEqual(['']);
    expect(house.simulator.control.ledger().totals.cache_write_1h_tokens).toBe(0);
  });

  test('are not set below the smallest prefix that the model caches', async () => {
    await open(0);
    await night(4, 3, 'Short.');
    const { totals } = house.simulator.control.ledger();
    expect([totals.cache_write_1h_tokens, totals.cache_read_tokens]).toEqual([0, 0]);
  });

  test('end where the provider seldom reads its cache', async () => {
    await open(0.95);
    await night(20, 4);
    expect((await readCacheUse(house.database.db)).get(MODEL)?.hit_rate).toBeLessThan(0.4);
    const later = await night(20, 4);
    expect([1, 2, 5].map((step) => marksAt(later, step))).toEqual([[''], [''], ['']]);
  });
});
