import type {} from '../../../../test/global-setup.ts';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { call, openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

const historyOf = (agentId: string) =>
  house.rows(
    `select c.context_from_seq, c.run_id, m.seq, m.role, m.content::text, m.shown
       from agent a join conversation c on c.id = a.conversation_id join message m on m.conversation_id = c.id
      where a.id = $1 order by m.seq`,
    [agentId],
  );

test('10,000 inputs to one agent: each answered under its name, the agent’s history unchanged', async () => {
  const worker = house.worker({ settings: { requests_max: 5_000, chunk_lines: 500 } });
  const before = await house.submit([{ input: 'What was said before. ⟦sim:fixed⟧' }]);
  const agent_id = before.agent_ids[0]!;
  await house.drive(worker);
  const history = await historyOf(agent_id);
  expect(history).toHaveLength(2);

  const batch = await house.submit(
    Array.from({ length: 10_000 }, (_, index) => ({
      input: `Input ${index}. ⟦sim:fixed⟧`,
      agent_id,
      custom_id: `input-${index}`,
      isolated: true,
    })),
  );
  // No run waits for another, nor for the agent.
  expect(await house.rows(`select 1 from run where state = 'queued'`)).toEqual([]);
  const next = await house.submit([{ input: 'What is said meanwhile. ⟦sim:fixed⟧', agent_id }]);
  await house.drive(worker, { rounds: 2_000 });

  expect(await house.runsOf(next.id)).toMatchObject([{ state: 'completed' }]);
  expect((await historyOf(agent_id)).slice(0, 2)).toEqual(history);
  expect(await historyOf(agent_id)).toHaveLength(4);
  const [sums] = await house.rows(
    `select count(*)::int as runs, count(distinct r.conversation_id)::int as conversations,
            count(*) filter (where r.stop_reason = 'end_turn')::int as ended, sum(m.messages)::int as messages,
            count(*) filter (where m.asked = format('Input %s. ⟦sim:fixed⟧', substr(r.custom_id, 7)))::int as matching
       from run r,
            lateral (select count(*) as messages, min(m.content->0->>'text') filter (where m.seq = 1) as asked
                       from message m where m.conversation_id = r.conversation_id) m
      where r.batch_id = $1`,
    [batch.id],
  );
  expect(sums).toEqual({
    runs: 10_000,
    conversations: 10_000,
    ended: 10_000,
    messages: 20_000,
    matching: 10_000,
  });
  expect(house.simulator.control.ledger().repeated.content_hashes).toBe(0);
});

test('an isolated run shows the memory of its agent and writes to it', async () => {
  const worker = house.worker();
  const first = await house.submit([
    { input: 'Before. ⟦sim:fixed⟧', blocks: { notes: 'old' }, tools: ['core_memory_append'] },
  ]);
  await house.drive(worker);
  const agent_id = first.agent_ids[0]!;
  const batch = await house.submit(
    ['one', 'two'].map((content) => ({
      input: call('core_memory_append', { label: 'notes', content }),
      agent_id,
      isolated: true,
    })),
  );
  await house.drive(worker);
  expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed' }, { state: 'completed' }]);
  const [block] = await house.rows<{ value: string }>(
    'select value from block_revision order by revision desc limit 1',
  );
  expect(block?.value.split('\n').toSorted()).toEqual(['old', 'one', 'two']);
  expect(await historyOf(agent_id)).toHaveLength(2);
});
