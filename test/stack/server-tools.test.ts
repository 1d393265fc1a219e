import type {} from '../global-setup.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createNightshift, type Nightshift } from '../../libs/client/src/index.ts';
import { openStackHouse, type StackHouse } from './house.ts';

const SEARCH = { type: 'web_search_20260318', name: 'web_search', max_uses: 2 };

let house: StackHouse;
let client: Nightshift;
beforeAll(async () => {
  house = await openStackHouse({ simulatorLatency: 'fixed:50', workers: 1 });
  client = createNightshift({ url: house.stack.apiUrl, apiKey: house.stack.apiKey });
});
afterAll(() => house.close());

test('a batch searches the web, goes on after a pause, ends an endless one, and bears the price of the searches', async () => {
  const agent = await client.agents.create({
    ...{ name: 'searcher', model: 'anthropic/claude-haiku-4-5', include_base_tools: false },
    server_tools: [SEARCH],
  });
  const request = { agent_id: agent.id, conversation: 'isolated' as const };
  const requests = [
    { ...request, input: '⟦sim:webSearch?n=2&pauses=1⟧', custom_id: 'pauses' },
    { ...request, input: '⟦sim:webSearch?n=1&pauses=50⟧', custom_id: 'endless', max_steps: 3 },
    { ...request, input: '⟦sim:webSearch⟧', custom_id: 'without', server_tools: [] },
  ];
  const estimate = await client.batches.estimate({ requests });
  expect(estimate.server_tools).toMatchObject([{ name: 'web_search', uses_per_step: 2, is_assumed: false }]);
  const batch = await client.batches.create({ requests, max_cost_usd: 5 });
  expect(await house.untilStatus(batch.id, 'completed')).toMatchObject({ counts: { completed: 3 } });
  const results = new Map<string | null, object>();
  for await (const line of client.batches.results(batch.id)) results.set(line.custom_id, line);
  expect(results.get('pauses')).toMatchObject({ ended_reason: 'end_turn', usage: { steps: 2 } });
  expect(results.get('endless')).toMatchObject({ ended_reason: 'max_steps', usage: { steps: 3 } });
  expect(results.get('without')).toMatchObject({ ended_reason: 'end_turn', usage: { steps: 1 } });
  // Seven searches at a cent each, and few tokens.
  const { usage } = await client.batches.retrieve(batch.id);
  expect(Number(usage.cost_usd)).toBeGreaterThan(0.07);
  expect(Number(usage.cost_usd)).toBeLessThan(0.08);
  await house.expectPaidOnce();
});
