import type {} from '../global-setup.ts';
import { auditInvariants, connect } from '@nightshift/db';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { LedgerSnapshot } from '../../apps/simulator/src/index.ts';
import { openStackHouse, type StackHouse, type WireBatch } from './house.ts';

// Real processes on a busy machine.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let house: StackHouse;
beforeAll(async () => {
  house = await openStackHouse({ simulatorLatency: 'uniform:50-200', workers: 1 });
});
afterAll(() => house.close());

interface Booked extends WireBatch {
  readonly state: string;
  readonly state_reason: string | null;
  readonly counts: WireBatch['counts'] & { readonly in_progress: number };
  readonly usage: WireBatch['usage'] & { readonly cost_usd: string };
}

const read = (batchId: string): Promise<Booked> =>
  house.client.get<Booked>(`/v1/messages/batches/${batchId}`);

/** Polls a batch until the condition holds. */
async function until(batchId: string, isSo: (batch: Booked) => boolean): Promise<Booked> {
  for (;;) {
    const batch = await read(batchId);
    if (isSo(batch)) return batch;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const billedNanoUsd = async (): Promise<number> =>
  Math.round((await house.control<LedgerSnapshot>('GET', '/ledger')).totals.usd * 1e9);

test('a cap of $0.03 holds when every answer nests too deep, and the spent amount is the billed amount', async () => {
  const agents = await Promise.all(
    Array.from({ length: 8 }, (_, place) => house.createAgent(`deep ${place}`, ['core_memory_append'])),
  );
  const { id } = await house.client.post<Booked>('/v1/messages/batches', {
    requests: agents.map((agent_id, place) => ({
      agent_id,
      input: `${place} ⟦sim:deepArgs?levels=3000&tool=no_such_tool⟧`,
    })),
    max_cost_usd: 0.03,
  });
  const ended = await until(id, ({ counts, state }) => counts.in_progress === 0 || state === 'paused');
  const billed = await billedNanoUsd();
  expect(billed).toBeGreaterThan(0);
  expect(billed).toBeLessThanOrEqual(30_000_000);
  expect(Math.round(Number(ended.usage.cost_usd) * 1e9)).toBe(billed);
  const { rows } = await house.stack.pool.query(
    `select (select sum(spent_nanousd)::float8 from batch_budget) as spent,
            (select json_agg(distinct stop_reason) from run where ended_at is not null) as reasons,
            (select max(attempt)::int from step) as attempts`,
  );
  expect(rows).toEqual([{ spent: billed, reasons: ['unusable_answer'], attempts: 1 }]);
  expect(await auditInvariants(connect(house.stack.pool))).toEqual([]);
});

test('a batch whose requests are cancelled at the console pauses with the reason, and a resume sends them again', async () => {
  await house.control('POST', '/rules', {
    id: 'console',
    op: 'create',
    match: { times: 1 },
    actions: [{ type: 'neverEnds' }, { type: 'consoleCancel', after_ms: 0 }],
  });
  await house.control('POST', '/config', { cancel: { delay_ms: 0, in_work: 0 } });
  const before = await billedNanoUsd();
  const agent_id = await house.createAgent('console', []);
  const id = await house.submit([agent_id], () => '⟦sim:fixed⟧');
  const paused = await until(id, ({ state }) => state === 'paused');
  expect(paused.state_reason).toMatch(/cancelled at the provider.*Resume the batch/);
  expect(await billedNanoUsd()).toBe(before);
  await house.client.post(`/v1/messages/batches/${id}/resume`, {});
  await house.untilStatus(id, 'completed');
  expect(await billedNanoUsd()).toBeGreaterThan(before);
});
