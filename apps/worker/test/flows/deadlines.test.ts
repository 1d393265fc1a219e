import type {} from '../../../../test/global-setup.ts';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { answering, openHouse, recording, script, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [
      {
        name: 'look',
        description: 'Looks.',
        input_schema: { type: 'object' },
        side_effects: 'none',
        return_char_limit: 1_000,
        timeout_ms: 1_000,
      },
    ],
  });
});
afterEach(() => house.close());

const PAST = '2020-01-01T00:00:00Z';
const FUTURE = '2999-01-01T00:00:00Z';
const DEADLINE = { state: 'failed', stop_reason: 'deadline' };
const passDeadlines = () => house.rows(`update run set deadline_at = '${PAST}', overdue_from = '${PAST}'`);
const audited = async () => expect(await auditInvariants(house.database.db)).toEqual([]);

test('a run that waits when its deadline passes ends without a step, a waiting neighbour too, and others go on', async () => {
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

test('what is at the provider when the deadline passes is awaited and carried out, and then the run ends', async () => {
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

test('B127: a run that waits for its caller past its deadline ends with its calls answered, its conversation usable', async () => {
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
