import type {} from '../../../../test/global-setup.ts';
import { SHIPPED_PRICES, stepUuid } from '@nightshift/agent-core';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import { openHouseApi, type HouseApi } from './house-api.ts';
import { call, openHouse, type House } from './house.ts';

const SEARCH = { type: 'web_search_20260318', name: 'web_search', user_location: { type: 'approximate' } };
const FETCH = { type: 'web_fetch_20260318', name: 'web_fetch', max_uses: 2 };
const NANOUSD_PER_SEARCH = SHIPPED_PRICES.web_search_per_1000 * 1_000_000;

let house: House;
let api: HouseApi;
let worker: FlowDeps;
/** The bodies that were sent. */
let bodies: string[];

beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), { simulator: { settings: { cache_miss: 0 } } });
  api = await openHouseApi(house.database.db);
  bodies = [];
  const real = anthropicProvider({ apiKey: 'test-key', baseURL: house.simulator.apiUrl });
  worker = house.worker({
    provider: {
      ...real,
      async createBatch(body, asked) {
        bodies.push(await body.text());
        return real.createBatch(body, asked);
      },
    },
  });
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await api.close();
  await house.close();
});

const sent = () =>
  bodies.flatMap(
    (body) =>
      (JSON.parse(body) as { requests: { params: { tools?: { name: string }[]; system: unknown } }[] })
        .requests,
  );

async function createAgent(body: object): Promise<string> {
  const { status, body: agent } = await api.call('POST', '/v1/agents/', {
    ...{ model: 'anthropic/claude-haiku-4-5', include_base_tools: false },
    ...body,
  });
  expect(status).toBe(200);
  return agent.id;
}
async function submit(body: object): Promise<string> {
  const { status, body: batch } = await api.call('POST', '/v1/batches', body);
  expect([status, batch]).toEqual([200, batch]);
  return batch.id;
}
/** The run of a batch, by the API. */
async function runOf(batchId: string) {
  const [row] = await house.rows<{ id: string }>('select id from run where batch_id = $1', [
    batchId.slice(4),
  ]);
  return (await api.call('GET', `/v1/runs/run-${row?.id ?? ''}`)).body;
}

describe('server tools', () => {
  test('stand unchanged behind the agent’s tools in each request, which is rebuilt byte for byte', async () => {
    const agent_id = await createAgent({
      tools: ['core_memory_append'],
      memory_blocks: [{ label: 'notes', value: '' }],
      system: 'S'.repeat(20_000),
      server_tools: [SEARCH, FETCH],
    });
    const input = ['one', 'two'].map((content) => call('core_memory_append', { label: 'notes', content }));
    const request = { agent_id, input: input.join('\n'), conversation: 'isolated' };
    await submit({ requests: Array.from({ length: 12 }, () => request) });
    await house.drive(worker);
    expect(sent()).toHaveLength(36);
    for (const { params } of sent()) expect(params.tools?.slice(1)).toEqual([SEARCH, FETCH]);
    // The mark of the prompt covers the tools before it, and no tool has one.
    expect(bodies.some((body) => body.includes('"cache_control"'))).toBe(true);
    for (const { params } of sent()) expect(JSON.stringify(params.tools)).not.toContain('cache_control');
    const [{ cached } = { cached: 0 }] = await house.rows<{ cached: number }>(
      'select sum(cache_read_tokens)::int as cached from step',
    );
    expect(cached).toBeGreaterThan(0);
    const steps = await house.rows<{ run_id: string; number: number; attempt: number }>(
      'select run_id, number, attempt from step order by number',
    );
    for (const step of steps) {
      const { text } = await api.call('GET', `/v1/steps/step-${stepUuid(step)}/request`);
      const params = text.slice(text.indexOf(',"request":') + ',"request":'.length, -1);
      expect(bodies.filter((body) => body.includes(`"params":${params}}`)).length).toBeGreaterThan(0);
    }
  });

  test('search within a step; a paused turn goes on with the same tools, and the run bears the price', async () => {
    const agent_id = await createAgent({ server_tools: [SEARCH] });
    const batch = await submit({ requests: [{ agent_id, input: '⟦sim:webSearch?n=2&pauses=2⟧' }] });
    await house.drive(worker);
    const run = await runOf(batch);
    expect(run).toMatchObject({ status: 'completed', stop_reason: 'end_turn' });
    expect(sent()).toHaveLength(3);
    expect(new Set(sent().map(({ params }) => JSON.stringify(params.tools))).size).toBe(1);
    const [booked] = await house.rows<{ cost: number }>('select sum(cost_nanousd)::float8 as cost from step');
    const usd = house.simulator.control.ledger().totals.usd;
    expect(usd).toBeGreaterThan((6 * NANOUSD_PER_SEARCH) / 1e9);
    expect((booked?.cost ?? 0) / 1e9).toBeCloseTo(usd, 6);
    expect(Number(run.usage.cost_usd)).toBeCloseTo(usd, 6);
  });

  test('that pause for ever end their run at max_steps', async () => {
    const agent_id = await createAgent({ server_tools: [SEARCH] });
    const requests = [{ agent_id, input: '⟦sim:webSearch?pauses=50⟧', max_steps: 3 }];
    const batch = await submit({ requests });
    await house.drive(worker);
    expect(await runOf(batch)).toMatchObject({ status: 'completed', stop_reason: 'max_steps' });
    expect(sent()).toHaveLength(3);
  });

  test('reserve the price of their uses: of max_uses, or of twenty searches', async () => {
    const agent_id = await createAgent({});
    const reserved = async (server_tools: readonly object[]): Promise<number> => {
      const request = { agent_id, input: 'Go.', conversation: 'isolated', max_output_tokens: 10_000_000 };
      await submit({ requests: [{ ...request, server_tools }], max_cost_usd: 100 });
      await composeProviderBatch(worker);
      const [row] = await house.rows<{ cost: number }>(
        `select g.reserved_nanousd::float8 as cost from batch_budget g join batch b on b.id = g.batch_id
          order by b.created_at desc limit 1`,
      );
      return row?.cost ?? 0;
    };
    const none = await reserved([]);
    const fetches = await reserved([FETCH]);
    const two = await reserved([{ ...SEARCH, max_uses: 2 }]);
    const assumed = await reserved([SEARCH]);
    // The JSON of the tools costs some tokens beside.
    expect(fetches - none).toBeLessThan(NANOUSD_PER_SEARCH / 10);
    expect(Math.floor((two - none) / NANOUSD_PER_SEARCH)).toBe(2);
    expect(Math.floor((assumed - none) / NANOUSD_PER_SEARCH)).toBe(20);
    await house.drive(worker);
  });

  test('of a request come along when its run is tried again with the agent as it is now', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'Go.' },
      outcome: { type: 'errored', error_type: 'invalid_request_error', message: 'No.' },
    } as never);
    const agent_id = await createAgent({ server_tools: [SEARCH] });
    const request = { agent_id, input: 'Go.', conversation: 'isolated' };
    const batch = await submit({ requests: [{ ...request, server_tools: [FETCH] }, request] });
    await house.drive(worker);
    house.simulator.control.clearRules();
    await api.call('PATCH', `/v1/agents/${agent_id}`, { server_tools: [{ ...SEARCH, max_uses: 1 }] });
    bodies = [];
    await api.call('POST', `/v1/batches/${batch}/retry`, { definitions: 'current' });
    await house.drive(worker);
    expect(sent().map(({ params }) => params.tools)).toEqual([[FETCH], [{ ...SEARCH, max_uses: 1 }]]);
  });
});
