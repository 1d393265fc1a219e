import { describe, expect, test } from 'vitest';
import { contentHashOf } from '../src/draws.ts';
import { findModel } from '../src/models.ts';
import { listPriceUsd } from '../src/usage.ts';
import { messageOf, request, requests, roundTrip, running } from './support/running.ts';

describe('the ledger', () => {
  test('bills succeeded requests by batch, at half the list price', async () => {
    const started = await running();
    const { control } = started.simulator;
    control.addRule({ op: 'request', match: { custom_id: '^r-0$' }, outcome: { type: 'errored' } });
    const lines = await roundTrip(started, requests(10));
    const usages = lines
      .filter(({ result }) => result.type === 'succeeded')
      .map((line) => messageOf(line).usage);
    const { totals, batches } = control.ledger();
    expect(totals.requests).toBe(9);
    expect(totals.input_tokens).toBe(usages.reduce((sum, usage) => sum + usage.input_tokens, 0));
    expect(totals.output_tokens).toBe(usages.reduce((sum, usage) => sum + usage.output_tokens, 0));
    expect(totals.usd).toBeCloseTo((totals.input_tokens * 2.5 + totals.output_tokens * 12.5) / 1_000_000, 12);
    expect(Object.values(batches)).toEqual([totals]);
  });

  test('finds each request by its content and by its custom id', async () => {
    const started = await running();
    const item = request('a');
    await roundTrip(started, [item]);
    const { control } = started.simulator;
    const content_hash = contentHashOf(JSON.stringify(item.params));
    expect(control.billed({ content_hash })).toMatchObject({ times: 1, first_batch_seq: 1 });
    expect(control.billed({ logical_key: 'a' })).toMatchObject({ times: 1 });
    expect(control.billed({ logical_key: 'b' })).toBeUndefined();
  });

  test('shows a step that was paid twice under two submissions', async () => {
    const started = await running({ settings: { logical_key: '^[^-]+-(.+)$' } });
    await roundTrip(started, [request('n1-step7', 'the same'), request('n1-step8', 'unique')]);
    await roundTrip(started, [request('n2-step7', 'the same')]);
    const { repeated, repeats, distinct } = started.simulator.control.ledger();
    expect(distinct).toEqual({ content_hashes: 2, logical_keys: 2 });
    expect(repeated).toEqual({ content_hashes: 1, logical_keys: 1 });
    expect(repeats).toContainEqual({
      by: 'logical_key',
      key: 'step7',
      times: 2,
      first_batch_seq: 1,
      again: [{ batch_id: started.simulator.control.batches()[1]?.id, custom_id: 'n2-step7' }],
    });
  });

  test('bills direct messages separately, at list price', async () => {
    const { simulator, client } = await running();
    const { usage } = await client.messages.create({
      model: 'claude-opus-5',
      max_tokens: 10,
      messages: [{ role: 'user', content: 'hi' }],
    });
    const { direct_messages: direct, batches } = simulator.control.ledger();
    expect(direct.usd).toBeCloseTo((usage.input_tokens * 5 + usage.output_tokens * 25) / 1_000_000, 12);
    expect(batches).toEqual({});
  });

  test('bills web searches at the full price, also in a batch', async () => {
    const started = await running();
    const { control } = started.simulator;
    await roundTrip(started, [request('a', '⟦sim:pauseTurn⟧')]);
    const { totals } = control.ledger();
    const tokens = (totals.input_tokens * 2.5 + totals.output_tokens * 12.5) / 1_000_000;
    expect(totals.usd).toBeCloseTo(tokens + 0.01, 12);
  });

  test('bills a refusal inside a text, but not before the first token', async () => {
    const started = await running();
    await roundTrip(started, [request('a', '⟦sim:refusal⟧'), request('b', '⟦sim:refusal?mid=1⟧')]);
    expect(started.simulator.control.ledger().totals.requests).toBe(1);
  });
});

describe('prices', () => {
  test('a long prompt has its own price if the table has one', () => {
    const haiku = findModel('claude-haiku-5-5');
    if (haiku === undefined) throw new Error('the model table lacks claude-haiku-5-5');
    const priced = (input_tokens: number): number =>
      listPriceUsd(haiku, {
        input_tokens,
        output_tokens: 0,
        cache_read_tokens: 0,
        cache_write_1h_tokens: 0,
        cache_write_5m_tokens: 0,
      });
    expect(priced(100_000)).toBeCloseTo(0.01, 10);
    expect(priced(200_000)).toBeCloseTo(0.1, 10);
  });
});
