import type {} from '../../../../test/global-setup.ts';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { sweep } from '../../src/flows/sweep/sweep.ts';
import { openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

const say = (what: string, agent_id?: string) => ({
  input: `${what} ⟦sim:fixed⟧`,
  ...(agent_id === undefined ? {} : { agent_id }),
});

/** Reads the inputs of a conversation in their order. */
async function saidTo(agentId: string): Promise<readonly string[]> {
  const rows = await house.rows<{ text: string }>(
    `select m.content->0->>'text' as text from agent a join message m on m.conversation_id = a.conversation_id
      where a.id = $1 and m.role = 'user' order by m.seq`,
    [agentId],
  );
  return rows.map(({ text }) => text.split(' ')[0] ?? '');
}

const statesOf = async (batch: SubmittedBatch) => (await house.runsOf(batch.id)).map((run) => run.state);

describe('runs on one conversation', () => {
  test('the same agent twice in one batch makes runs that take turns in order of arrival', async () => {
    const worker = house.worker();
    const batch = await house.submit([
      say('a'),
      { ...say('b'), same_agent_as: 0 },
      { ...say('c'), same_agent_as: 0 },
    ]);
    expect(await statesOf(batch)).toEqual(['ready', 'queued', 'queued']);
    await house.drive(worker);
    expect(await statesOf(batch)).toEqual(['completed', 'completed', 'completed']);
    expect(await saidTo(batch.agent_ids[0]!)).toEqual(['a', 'b', 'c']);
    expect(house.simulator.control.ledger().totals.requests).toBe(3);
  });

  test('of two batches take turns in order of arrival, and none writes into the turn of another', async () => {
    const worker = house.worker();
    const first = await house.submit([say('a'), { ...say('b'), same_agent_as: 0 }]);
    const agent_id = first.agent_ids[0]!;
    const second = await house.submit([say('c', agent_id), say('other'), say('d', agent_id)]);
    const third = await house.submit([say('e', agent_id)]);
    expect(await statesOf(second)).toEqual(['queued', 'ready', 'queued']);
    await house.drive(worker);
    expect(await saidTo(agent_id)).toEqual(['a', 'b', 'c', 'd', 'e']);
    // Input and answer alternate: no answer stands behind the input of another run.
    const turns = await house.rows<{ run_id: string; role: string }>(
      `select m.run_id, m.role from agent a join message m on m.conversation_id = a.conversation_id
        where a.id = $1 order by m.seq`,
      [agent_id],
    );
    expect(turns.map(({ role }) => role)).toEqual(
      Array.from({ length: 10 }, (_, index) => (index % 2 === 0 ? 'user' : 'assistant')),
    );
    expect(turns.every(({ run_id }, index) => index % 2 === 0 || turns[index - 1]?.run_id === run_id)).toBe(
      true,
    );
    for (const batch of [first, second, third])
      expect(new Set(await statesOf(batch))).toEqual(new Set(['completed']));
  });

  test('a cancelled batch loses its turns, and later turns move up in order', async () => {
    const worker = house.worker();
    const first = await house.submit([say('a')]);
    const agent_id = first.agent_ids[0]!;
    const second = await house.submit([say('b', agent_id), say('c', agent_id)]);
    const third = await house.submit([say('d', agent_id)]);
    // While the first is at the provider, the run behind it is cancelled.
    for (const flow of [composeProviderBatch, submitProviderBatch]) await flow(worker);
    await house.cancel(second.id);
    await house.drive(worker);
    expect(await statesOf(second)).toEqual(['cancelled', 'cancelled']);
    expect([await statesOf(first), await statesOf(third)]).toEqual([['completed'], ['completed']]);
    expect(await saidTo(agent_id)).toEqual(['a', 'd']);
    expect(await house.rows('select 1 from queued_input')).toEqual([]);
  });

  test('the cancelled run that holds it passes it to the next', async () => {
    const worker = house.worker();
    const first = await house.submit([say('a')]);
    const agent_id = first.agent_ids[0]!;
    const second = await house.submit([say('b', agent_id)]);
    await house.cancel(first.id);
    await house.drive(worker);
    expect([await statesOf(first), await statesOf(second)]).toEqual([['cancelled'], ['completed']]);
    // Its input was stored before the cancel, and was never answered.
    expect(await saidTo(agent_id)).toEqual(['a', 'b']);
  });

  test('a run whose turn came while its waiting row was locked is found by the sweep', async () => {
    const worker = house.worker();
    const first = await house.submit([say('a')]);
    const agent_id = first.agent_ids[0]!;
    const second = await house.submit([say('b', agent_id)]);
    for (const flow of [composeProviderBatch, submitProviderBatch]) await flow(worker);
    do await pollProviderBatches(worker);
    while ((await house.rows(`select 1 from provider_batch where state = 'ended'`)).length === 0);
    const other = await house.database.pool.connect();
    try {
      await other.query('begin');
      await other.query('select 1 from run where batch_id = $1 for update', [second.id]);
      await ingestResults(worker);
      expect([await statesOf(first), await statesOf(second)]).toEqual([['completed'], ['queued']]);
      await other.query('commit');
    } finally {
      other.release(true);
    }
    await sweep(worker);
    expect(await statesOf(second)).toEqual(['ready']);
    await house.drive(worker);
    expect(await saidTo(agent_id)).toEqual(['a', 'b']);
  });
});
