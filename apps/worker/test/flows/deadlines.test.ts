import type {} from '../../../../test/global-setup.ts';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { sweep } from '../../src/flows/sweep/sweep.ts';
import { answering, openHouse, recording, script, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: ['look', 'send_mail'].map((name) => ({
      name,
      description: `Does: ${name}.`,
      input_schema: { type: 'object' },
      side_effects: name === 'look' ? ('none' as const) : ('once' as const),
      return_char_limit: 1_000,
      timeout_ms: 1_000,
    })),
  });
});
afterEach(() => house.close());

const PAST = '2020-01-01T00:00:00Z';
const FUTURE = '2999-01-01T00:00:00Z';
const DEADLINE = { state: 'failed', stop_reason: 'deadline' };
const passDeadlines = () => house.rows(`update run set deadline_at = '${PAST}', overdue_from = '${PAST}'`);
const audited = async () => expect(await auditInvariants(house.database.db)).toEqual([]);

test('a waiting run ends at its deadline without a step, as does a waiting neighbour; others go on', async () => {
  const { provider, sent } = recording(house);
  const batch = await house.submit([
    { input: 'too late', deadline: PAST },
    { input: 'behind it, and too late', deadline: PAST, same_agent_as: 0 },
    { input: 'behind both ⟦sim:fixed⟧', same_agent_as: 0, deadline: FUTURE },
  ]);
  await house.drive(house.worker({ provider }));
  expect(await house.runsOf(batch.id)).toMatchObject([
    { ...DEADLINE, error: { message: 'The run passed its deadline before it was done.' } },
    DEADLINE,
    { state: 'completed', stop_reason: 'end_turn' },
  ]);
  expect(sent).toHaveLength(1);
  await audited();
});

test('a request at the provider at the deadline is awaited and applied, and then the run ends', async () => {
  const tools = answering();
  const batch = await house.submit([
    { input: script({ tool: 'look' }, { text: 'never said' }), tools: ['look'], deadline: FUTURE },
    { input: script({ text: 'in one step' }), deadline: FUTURE },
  ]);
  const worker = house.worker({
    tools,
    hooks: async (point) => {
      if (point === 'submit.after_commit') await passDeadlines();
    },
  });
  await house.drive(worker);
  expect(await house.runsOf(batch.id)).toMatchObject([
    DEADLINE,
    { state: 'completed', stop_reason: 'end_turn' },
  ]);
  expect(tools.asked).toHaveLength(1);
  await audited();
});

test('a run that waits for its caller past its deadline ends with its calls answered and a usable conversation', async () => {
  const worker = house.worker({ tools: answering() });
  const batch = await house.submit([
    {
      input: script({ tool: 'look' }),
      tools: ['look'],
      tool_rules: [{ type: 'requires_approval', tool_name: 'look' }],
      deadline: FUTURE,
    },
  ]);
  await expect(house.drive(worker, { rounds: 12 })).rejects.toThrow('have not ended');
  expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'requires_action' }]);
  await passDeadlines();
  await house.drive(worker);
  expect(await house.runsOf(batch.id)).toMatchObject([DEADLINE]);
  await audited();
  const next = await house.submit([{ input: 'And now? ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
  await house.drive(worker);
  expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
});

test('without an approval in time no call of the answer is made, nor the calls that waited beside it', async () => {
  const tools = answering();
  const worker = house.worker({ tools });
  const batch = await house.submit([
    {
      input: script([{ tool: 'send_mail' }, { tool: 'look' }]),
      tools: ['look', 'send_mail'],
      tool_rules: [{ type: 'requires_approval', tool_name: 'look' }],
      deadline: FUTURE,
    },
  ]);
  await expect(house.drive(worker, { rounds: 12 })).rejects.toThrow('have not ended');
  await passDeadlines();
  await house.drive(worker);
  expect(tools.asked).toEqual([]);
  expect(await house.runsOf(batch.id)).toMatchObject([DEADLINE]);
  expect(await house.rows('select state from tool_call order by call_index')).toEqual([
    { state: 'failed' },
    { state: 'failed' },
  ]);
  await audited();
  const { provider, sent } = recording(house);
  const next = await house.submit([{ input: 'And now? ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
  await house.drive(house.worker({ provider }));
  expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
  const [results] = sent[0]?.messages.slice(2) ?? [];
  expect(results?.content.slice(0, 2)).toMatchObject(
    ['send_mail', 'look'].map(() => ({
      type: 'tool_result',
      is_error: true,
      content: expect.stringContaining('the call was not made') as string,
    })),
  );
});

test.each(['submit.after_claim', 'submit.after_encode'])(
  'a step sealed but not sent at its deadline is never sent: at %s',
  async (when) => {
    const { provider, sent } = recording(house);
    const batch = await house.submit(
      [
        { input: 'too late', deadline: FUTURE },
        { input: 'in time ⟦sim:fixed⟧', deadline: FUTURE },
      ],
      { cap: { cost_nanousd: 1e9, output_tokens: null } },
    );
    const worker = house.worker({
      provider,
      hooks: async (point) => {
        if (point !== when) return;
        await house.rows(
          `update run set deadline_at = '${PAST}', overdue_from = '${PAST}'
                           where id = $1 and ended_at is null`,
          [batch.run_ids[0]],
        );
      },
    });
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([DEADLINE, { stop_reason: 'end_turn' }]);
    expect(sent).toHaveLength(1);
    expect(await house.rows('select reserved_nanousd::int as reserved from batch_budget')).toEqual([
      { reserved: 0 },
    ]);
    await audited();
  },
);

test('a step that waits for a retry ends at its deadline, regardless of a long retry-after', async () => {
  house.simulator.control.addRule({
    op: 'create',
    match: { times: 1 },
    action: { type: 'status', code: 429, headers: { 'retry-after': '3600' } },
  });
  const deadline = new Date(Date.now() + 1_800_000).toISOString();
  const batch = await house.submit([{ input: 'too late', deadline }, { input: 'with time' }]);
  const worker = house.worker();
  await composeProviderBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'refused' });
  const due = await house.rows<{ at: Date }>('select next_due_at as at from provider_batch');
  expect(due).toEqual([{ at: new Date(deadline) }]);
  await house.rows(
    `update run set deadline_at = '${PAST}', overdue_from = '${PAST}' where deadline_at is not null`,
  );
  await house.rows(`update provider_batch set next_due_at = '${PAST}'`);
  await expect
    .poll(async () => {
      await house.drive(worker, { rounds: 1 }).catch(() => undefined);
      return house.runsOf(batch.id);
    })
    .toMatchObject([DEADLINE, { state: 'in_flight' }]);
  await audited();
});

test('runs whose deadlines pass while a body is encoded do not delay the others', async () => {
  const soon = (ms: number): string => new Date(Date.now() + ms).toISOString();
  const batch = await house.submit([
    ...Array.from({ length: 3 }, (_, index) => ({ input: 'no time', deadline: soon(20_000 + index) })),
    { input: 'with time ⟦sim:fixed⟧', deadline: FUTURE },
  ]);
  let encoded = 0;
  const worker = house.worker({
    hooks: async (point) => {
      if (point !== 'submit.after_encode') return;
      // At each encoding, another run is too late.
      await house.rows(
        `update run set deadline_at = '${PAST}', overdue_from = '${PAST}' where id = $1 and ended_at is null`,
        [batch.run_ids[encoded++ % 3]],
      );
    },
  });
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  await submitProviderBatch(worker);
  expect(await house.rows(`select state, request_count from provider_batch`)).toEqual([
    { state: 'submitted', request_count: 1 },
  ]);
});

test('a failed part of the sweep stops no other, and is reported at the end', async () => {
  const { run_ids } = await house.submit([
    { input: 'too late', deadline: PAST },
    { input: 'ended' },
    { input: 'behind it', same_agent_as: 1 },
  ]);
  await house.rows(
    `update run set state = 'cancelled', stop_reason = 'cancelled', ended_at = app_now() where id = $1`,
    [run_ids[1]],
  );
  await house.rows('update conversation set run_id = null where run_id = $1', [run_ids[1]]);
  await house.rows(`
    create function stay() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$`);
  await house.rows(
    `create trigger stay before update on run for each row when (new.stop_reason = 'deadline') execute function stay()`,
  );
  await expect(sweep(house.worker())).rejects.toThrow('not now');
  expect(await house.rows('select state from run where id = $1', [run_ids[2]])).toEqual([{ state: 'ready' }]);
});
