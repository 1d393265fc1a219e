import type {} from '../../../../test/global-setup.ts';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { answering, openHouse, recording, script, type House, type SubmittedRun } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: ['look', 'try'].map((name) => ({
      name,
      description: `Does: ${name}.`,
      input_schema: { type: 'object', properties: { n: { type: 'integer' } } },
      side_effects: 'none' as const,
      return_char_limit: 100_000,
      timeout_ms: 1_000,
    })),
  });
});
afterEach(() => house.close());

const TOOLS = ['look', 'try'];

describe('runs in a loop', () => {
  test('a repeated call with the same result ends its run as loop_detected, and its neighbours go on', async () => {
    const batch = await house.submit([
      { input: '⟦sim:infiniteTools?tool=look&same=1⟧', tools: TOOLS, max_steps: 50 },
      { input: script({ tool: 'look' }, { text: 'Seen.' }), tools: TOOLS },
    ]);
    await house.drive(house.worker({ tools: answering() }));
    expect(await house.runsOf(batch.id)).toMatchObject([
      {
        state: 'failed',
        stop_reason: 'loop_detected',
        step_number: 5,
        error: {
          message: 'The same step came 5 times in a row, with the same calls, arguments and results.',
        },
      },
      { state: 'completed', stop_reason: 'end_turn' },
    ]);
    // Every call has its result, so the provider accepts the agent's next run.
    const [agent] = batch.agent_ids;
    const next = await house.submit([{ input: 'And now? ⟦sim:fixed⟧', agent_id: agent! }]);
    await house.drive(house.worker());
    expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
  });

  test('calls that each fail in a different way end a run as loop_detected', async () => {
    const batch = await house.submit([
      {
        input: script(...Array.from({ length: 20 }, (_, n) => ({ tool: 'try', args: { n } }))),
        tools: TOOLS,
        max_steps: 50,
      },
    ]);
    const tools = answering(({ arguments: args }) => new Error(`no ${JSON.stringify(args)}`));
    await house.drive(house.worker({ tools }));
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'failed', stop_reason: 'loop_detected', step_number: 9 },
    ]);
  });

  test('a long run whose steps make progress goes on, and its stored trail stays small', async () => {
    const batch = await house.submit([
      {
        input: script(...Array.from({ length: 30 }, (_, n) => ({ tool: 'look', args: { n } }))),
        tools: TOOLS,
        max_steps: 30,
        tool_rules: [{ type: 'continue_loop', tool_name: 'look' }],
      },
    ]);
    const tools = answering(({ arguments: args }) => `saw ${JSON.stringify(args)}`);
    await house.drive(house.worker({ tools }), { rounds: 2_000 });
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'completed', stop_reason: 'max_steps', step_number: 30 },
    ]);
    const [kept] = await house.rows<{ bytes: number }>('select length(trail::text) as bytes from run');
    expect(kept?.bytes).toBeLessThan(2_000);
  });
});

describe('empty answers', () => {
  test('are requested again, and an answer then ends the run as usual', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { times: 2 },
      outcome: { type: 'script', script: 'emptyEndTurn' },
    });
    const { provider, sent } = recording(house);
    const batch = await house.submit([{ input: 'Say something.' }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'completed', stop_reason: 'end_turn', step_number: 3 },
    ]);
    expect(sent.map(({ messages }) => messages.length)).toEqual([1, 2, 3]);
  });
});

describe('pauses of the provider', () => {
  test('are resumed a limited number of times, with the answer sent back unchanged', async () => {
    const { provider, sent } = recording(house);
    const batch = await house.submit([
      { input: '⟦sim:pauseTurn?k=3⟧', max_steps: 50 },
      { input: '⟦sim:pauseTurn?k=99⟧', max_steps: 50 },
    ]);
    await house.drive(house.worker({ provider }), { rounds: 2_000 });
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'completed', stop_reason: 'end_turn', step_number: 4 },
      {
        state: 'failed',
        stop_reason: 'loop_detected',
        step_number: 11,
        error: { message: 'The provider suspended the answer 11 times in a row.' },
      },
    ]);
    expect(sent.at(-1)?.messages.slice(0, 2)).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: [{ type: 'text' }, { type: 'server_tool_use' }, {}] },
    ]);
    const errored = await house.rows(`select 1 from step where state = 'errored'`);
    expect(errored).toEqual([]);
  });

  test('are finished by an empty answer: the next run of the agent sees the text', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'web_search_tool_result', times: 1 },
      outcome: { type: 'script', script: 'emptyEndTurn' },
    });
    const batch = await house.submit([{ input: '⟦sim:pauseTurn?k=2⟧' }]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn', step_number: 2 }]);
    const { provider, sent } = recording(house);
    const next = await house.submit([{ input: 'And now? ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
    expect(sent.map(({ messages }) => messages.map(({ role }) => role))).toEqual([
      ['user', 'assistant', 'user'],
    ]);
  });

  const searching = { input: '⟦sim:pauseTurn?k=99&unpaired=1⟧' };

  test.each<[string, SubmittedRun, (batchId: string) => Promise<unknown>]>([
    ['its step limit', { ...searching, max_steps: 3 }, async () => null],
    ['too many of them', { ...searching, max_steps: 50 }, async () => null],
    ['a cancel', searching, (batchId) => house.cancel(batchId)],
    [
      'its deadline',
      { ...searching, deadline: new Date(Date.now() + 3_600_000).toISOString() },
      () => house.rows(`update run set deadline_at = now(), overdue_from = now() where ended_at is null`),
    ],
  ])('left unfinished by %s do not harm the next run of the agent', async (_end, run, interfere) => {
    const worker = house.worker();
    const batch = await house.submit([run]);
    for (const flow of [composeProviderBatch, submitProviderBatch]) await flow(worker);
    do await pollProviderBatches(worker);
    while ((await house.rows(`select 1 from provider_batch where state = 'ended'`)).length === 0);
    await ingestResults(worker);
    await interfere(batch.id);
    await house.drive(worker, { rounds: 2_000 });
    const { provider, sent } = recording(house);
    const next = await house.submit([{ input: 'And now? ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
    expect(sent.map(({ messages }) => messages.map(({ role }) => role))).toEqual([['user', 'user']]);
  });
});
