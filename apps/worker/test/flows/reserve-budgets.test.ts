import {
  countMedia,
  EMPTY_BODY_BYTES,
  reserveNanoUsd,
  SHIPPED_PRICES,
  worstInputTokens,
  type Cap,
  type ContentBlock,
} from '@nightshift/agent-core';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const MODEL = 'claude-haiku-4-5';
const DEAR: Cap = { cost_nanousd: 1e15, output_tokens: null };
const tokens = (output_tokens: number): Cap => ({ cost_nanousd: null, output_tokens });
const inOrder = async (): Promise<void> => expect(await auditInvariants(house.database.db)).toEqual([]);
const states = async (batchId: string): Promise<Record<string, number>> => {
  const counts: Record<string, number> = {};
  for (const { state } of await house.runsOf(batchId)) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
};

const text = (said: string): ContentBlock => ({ type: 'text', text: said });
const picture = (kind: 'base64' | 'url'): ContentBlock => ({
  type: 'image',
  source:
    kind === 'url'
      ? { type: 'url', url: 'https://example.com/a.png' }
      : { type: 'base64', media_type: 'image/png', data: 'A'.repeat(40_000) },
});
const document: ContentBlock = {
  type: 'document',
  source: { type: 'url', url: 'https://example.com/a.pdf' },
};

describe('the reservation of a step', () => {
  test.each<[string, ContentBlock[], number?]>([
    ['a few words', [text('Say hello.')]],
    ['words of several bytes each', [text('Grüße aus 東京 '.repeat(500))]],
    ['words about an "image" and a "document"', [text('"image" "document" '.repeat(100))]],
    ['an inline image', [text('Look.'), picture('base64')]],
    ['two images that the provider fetches', [picture('url'), picture('url'), text('Look.')]],
    ['a document that the provider fetches', [document, text('Read.')]],
    ['more than the window holds', [text('x'.repeat(300_000))]],
    ['an agent whose window is larger than the model’s', [text('x'.repeat(300_000))], 1_000_000],
  ])('is the worst cost of its request as sent, and of its answer: %s', async (_what, content, window) => {
    const agent = window === undefined ? {} : { context_window_limit: window };
    await house.submit([{ input: '-', max_tokens: 777, agent }], { cap: DEAR });
    await house.rows(`update message set content = $1::json where role = 'user'`, [JSON.stringify(content)]);
    const worker = house.worker();
    await composeProviderBatch(worker);
    const [reserved] = await house.rows<{ cost: number; tokens: number }>(
      'select reserved_nanousd::float8 as cost, reserved_output_tokens::float8 as tokens from batch_budget',
    );
    await submitProviderBatch(worker);
    const [sent] = await house.rows<{ bytes: number }>('select body_bytes::int as bytes from provider_batch');
    const worst = worstInputTokens(SHIPPED_PRICES, MODEL, {
      bytes: (sent?.bytes ?? 0) - EMPTY_BODY_BYTES,
      media: countMedia(content),
      window_tokens: window ?? 200_000,
    });
    expect(reserved).toEqual({ cost: reserveNanoUsd(SHIPPED_PRICES, MODEL, worst, 777), tokens: 777 });
    await inOrder();
  });
});

test('steps measured page by page share one cap, and steps without room wait for released budget', async () => {
  const runs = (count: number, whose: string) =>
    Array.from({ length: count }, (_, at) => ({ input: `${whose} ${at}` }));
  const poor = await house.submit(runs(250, 'poor'), { cap: tokens(120 * 1_024) });
  const rich = await house.submit(runs(10, 'rich'), { cap: DEAR });
  const worker = house.worker();
  expect(await composeProviderBatch(worker)).toMatchObject({ requests: 130, no_room: 130 });
  expect(await states(poor.id)).toEqual({ in_flight: 120, ready: 130 });
  expect(await states(rich.id)).toEqual({ in_flight: 10 });
  expect(
    await house.rows(
      `select room, reserved_output_tokens::int as reserved from batch_budget order by reserved_output_tokens`,
    ),
  ).toEqual([
    { room: 'open', reserved: 10 * 1_024 },
    { room: 'short', reserved: 120 * 1_024 },
  ]);
  await inOrder();
  await house.drive(worker, { hasten: true });
  for (const { id, run_ids } of [poor, rich]) expect(await states(id)).toEqual({ completed: run_ids.length });
  expect(house.simulator.control.ledger().repeated.content_hashes).toBe(0);
  await inOrder();
});

test('a step that its run’s own cap has no room for ends its run, and reserves nothing', async () => {
  const batch = await house.submit(
    [{ input: 'one', cap: tokens(1_023) }, { input: 'two', cap: tokens(1_024) }, { input: 'three' }],
    { cap: tokens(9_999) },
  );
  expect(await composeProviderBatch(house.worker())).toMatchObject({ requests: 2 });
  expect((await house.runsOf(batch.id)).map(({ state, stop_reason }) => [state, stop_reason])).toEqual([
    ['failed', 'budget_exceeded'],
    ['in_flight', null],
    ['in_flight', null],
  ]);
  expect(await house.rows('select reserved_output_tokens::int as reserved from batch_budget')).toEqual([
    { reserved: 2_048 },
  ]);
  await inOrder();
});
