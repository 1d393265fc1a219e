import { longestStretchOf } from '../../../../test/cpu-time.ts';
import { stepUuid, toWireId } from '@nightshift/agent-core';
import { describe, expect, test } from 'vitest';
import type { ToolPort } from '../../../../test/runners-of.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { runToolCalls } from '../../src/flows/run-tool-calls/run-tool-calls.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { ToolRequest } from '../../src/tools/runner.ts';
import { type SubmittedBatch } from './house.ts';
import {
  house,
  submitCalls,
  untilActing,
  whatOf,
  reply,
  world,
  timesDone,
  statesOf,
  resultsOf,
  refuse,
  openHouseForEach,
} from './tool-call-house.ts';

openHouseForEach();

test('runs leave at once when the last chunk of calls has ended', async () => {
  await submitCalls([[['act_none', 'one']], [['act_none', 'two']]]);
  await untilActing();
  await house.rows(`insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
                    select gen_random_uuid(), project_id, kind, run_ids[2:2], next_due_at from run_chunk`);
  await house.rows('update run_chunk set run_ids = run_ids[1:1] where cardinality(run_ids) = 2');
  const worker = house.worker({ tools: world().tools, settings: { gather_window_ms: 3_600_000 } });
  expect(await runToolCalls(worker)).toMatchObject({ runs: 1, calls: 1 });
  expect(await composeProviderBatch(worker)).toMatchObject({ worked: false });
  expect(await runToolCalls(worker)).toMatchObject({ runs: 1, calls: 1 });
  expect(await composeProviderBatch(worker)).toMatchObject({ worked: true, requests: 2 });
});

test('a tool receives the API ids of its run and agent, and a stable key', async () => {
  const batch = await submitCalls([[['act_once', 'charge']]]);
  await untilActing();
  const { tools, done } = world();
  await house.drive(house.worker({ tools }));
  const [run_id] = batch.run_ids;
  const [stored] = await house.rows<{ agent_id: string }>('select agent_id from run where id = $1', [run_id]);
  const key = `${stepUuid({ run_id: run_id!, number: 1, attempt: 0 })}/0`;
  expect(done).toMatchObject([
    {
      run_id: toWireId('run', run_id!),
      agent_id: toWireId('agent', stored!.agent_id),
      call_id: key,
      idempotency_key: key,
    },
  ]);
});

describe('a crash', () => {
  test('leaves no more calls in doubt than one wave, and loses no finished call', async () => {
    const batch = await submitCalls(
      Array.from({ length: 150 }, (_, index) => [
        ['act_once', `charge ${index}`],
        ['act_none', `look ${index}`],
      ]),
    );
    await untilActing();
    const first = world();
    const second = Promise.withResolvers<void>();
    const asked: number[] = [];
    const doomed = house.worker({
      owner: 'doomed',
      tools: {
        runCalls(calls, options) {
          asked.push(calls.length);
          if (asked.length === 1) return first.tools.runCalls(calls, options);
          first.done.push(...calls);
          second.resolve();
          return new Promise(() => undefined);
        },
      },
    });
    await Promise.race([second.promise, runToolCalls(doomed)]);
    // Calls without side effects are not at risk, and wait for no wave.
    expect(asked).toEqual([150 + 64, 64]);
    // Cut off from its leases without notice: its cleanup does not run.
    await house.rows(
      `update run_chunk set lease_until = app_now() - interval '1 millisecond' where lease_owner = 'doomed'`,
    );
    const { tools, done } = world();
    await house.drive(house.worker({ tools }), { hasten: true });

    const times = timesDone([...first.done, ...done]);
    expect(Object.keys(times)).toHaveLength(300);
    expect(Object.values(times).every((count) => count === 1)).toBe(true);
    const states = (await statesOf(batch)).filter((_, index) => index % 2 === 0);
    expect(states.filter((state) => state === 'unknown')).toHaveLength(64);
    expect(states.filter((state) => state === 'succeeded')).toHaveLength(86);
    expect((await house.runsOf(batch.id)).every((run) => run.state === 'completed')).toBe(true);
  });
});

describe('a worker that stops during its calls', () => {
  /** Makes the calls named in `ended`, begins the calls in `broken`, and answers on its stop signal. */
  function interrupted(ended: readonly string[], broken: readonly string[]) {
    const begun = Promise.withResolvers<void>();
    const done: ToolRequest[] = [];
    const tools: ToolPort = {
      async runCalls(calls, options) {
        const cut = Promise.withResolvers<void>();
        options?.signal?.addEventListener('abort', () => cut.resolve());
        done.push(...calls.filter((request) => [...ended, ...broken].includes(whatOf(request))));
        begun.resolve();
        await cut.promise;
        return calls.map((request) => {
          if (ended.includes(whatOf(request))) return reply(request);
          return reply(request, 'crashed', broken.includes(whatOf(request)));
        });
      },
    };
    return { tools, done, begun: begun.promise };
  }

  test('stores its results: finished calls are not repeated, pending calls are made, only interrupted calls are unknown', async () => {
    const batch = await submitCalls([
      ...Array.from({ length: 10 }, (_, index) => [['act_once', `charge ${index}`] as const]),
      [
        ['act_idempotent', 'put and done'],
        ['act_idempotent', 'put and broken'],
        ['act_none', 'look'],
      ],
    ]);
    await untilActing();
    const ended = [...Array.from({ length: 7 }, (_, index) => `charge ${index}`), 'put and done'];
    const first = interrupted(ended, ['charge 7', 'put and broken']);
    const stopped = house.worker({ owner: 'stopped', tools: first.tools });
    const working = runToolCalls(stopped);
    await first.begun;
    stopped.leases.close();
    expect(await working).toMatchObject({ worked: true, outcome: 'given_back' });
    expect(
      await house.rows(
        `select lease_owner, next_due_at <= app_now() as due from run_chunk where kind = 'tools'`,
      ),
    ).toEqual([{ lease_owner: null, due: true }]);
    expect(await statesOf(batch)).toEqual([
      ...Array.from({ length: 7 }, () => 'succeeded'),
      'unknown',
      'pending',
      'pending',
      'succeeded',
      'running',
      'pending',
    ]);

    const { tools, done } = world();
    await house.drive(house.worker({ tools }));
    expect(done.map(whatOf).sort()).toEqual(['charge 8', 'charge 9', 'look', 'put and broken']);
    // A repeated call has the same key.
    const keys = [...first.done, ...done].filter((request) => whatOf(request) === 'put and broken');
    expect(new Set(keys.map((request) => request.idempotency_key)).size).toBe(1);
    expect(keys).toHaveLength(2);
    const states = await statesOf(batch);
    expect(states.filter((state) => state !== 'succeeded')).toEqual(['unknown']);
    expect(await resultsOf(batch.run_ids[3])).toMatchObject([{ content: 'charge 3 is succeeded' }]);
    expect(await resultsOf(batch.run_ids[7])).toMatchObject([
      {
        content: expect.stringMatching(/may or may not have taken effect.*charge 7 is crashed/),
        is_error: true,
      },
    ]);
    expect(await house.rows('select 1 from tool_call where held_result is not null')).toEqual([]);
  });

  test('stores its results when its tool host is gone for good, and makes the rest once a host is back', async () => {
    const batch = await submitCalls([
      [['act_once', 'charged']],
      [['act_once', 'charge broken']],
      [['act_once', 'charge not begun']],
      [['act_idempotent', 'put broken']],
      [['act_none', 'look not begun']],
    ]);
    await untilActing();
    const away = house.worker({
      tools: {
        runCalls: (calls) =>
          Promise.reject(
            Object.assign(new Error('the tool host does not start'), {
              outcomes: calls.map((request) => {
                const what = whatOf(request);
                return reply(
                  request,
                  what === 'charged' ? 'succeeded' : 'crashed',
                  !what.includes('not begun'),
                );
              }),
            }),
          ),
      },
    });
    expect(await runToolCalls(away)).toMatchObject({
      ...{ outcome: 'put off', put_off: 4, ended: 0 },
      reason: expect.stringContaining('The tool host does not take calls.') as string,
    });
    expect(await statesOf(batch)).toEqual(['succeeded', 'unknown', 'pending', 'running', 'pending']);

    const { tools, done } = world();
    await house.drive(house.worker({ tools }), { hasten: true });
    expect(done.map(whatOf).sort()).toEqual(['charge not begun', 'look not begun', 'put broken']);
    expect(await resultsOf(batch.run_ids[0])).toMatchObject([{ content: 'charged is succeeded' }]);
    expect((await statesOf(batch)).filter((state) => state !== 'succeeded')).toEqual(['unknown']);
  });

  test('changes nothing after its chunk was taken over', async () => {
    const batch = await submitCalls([[['act_once', 'charge']]]);
    await untilActing();
    const first = interrupted(['charge'], []);
    const zombie = house.worker({ owner: 'zombie', tools: first.tools });
    const working = runToolCalls(zombie);
    await first.begun;
    await house.rows(
      `update run_chunk set lease_until = app_now() - interval '1 millisecond' where lease_owner = 'zombie'`,
    );
    const { tools, done } = world();
    await house.drive(house.worker({ tools }));
    zombie.leases.close();
    await expect(working).rejects.toMatchObject({ code: 'fenced' });
    expect(done).toEqual([]);
    expect(await statesOf(batch)).toEqual(['unknown']);
  });
});

test('calls of a batch being cancelled are not made, and its runs end as cancelled with every call answered', async () => {
  const batch = await submitCalls([
    [
      ['act_once', 'charge'],
      ['act_idempotent', 'put'],
      ['act_none', 'look'],
    ],
  ]);
  await untilActing();
  // A call had been begun by a worker that crashed.
  await house.rows(
    `update tool_call set state = 'running', started_at = app_now() where tool_name = 'act_idempotent'`,
  );
  await house.cancel(batch.id);
  const { tools, done } = world();
  await house.drive(house.worker({ tools }), { hasten: true });
  expect(done).toEqual([]);
  expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'cancelled', stop_reason: 'cancelled' }]);
  expect(await statesOf(batch)).toEqual(['failed', 'unknown', 'failed']);
  const notMade = { content: 'The batch was cancelled before this call was made.', is_error: true };
  expect(await resultsOf(batch.run_ids[0])).toMatchObject([
    notMade,
    { content: expect.stringMatching(/may or may not have taken effect/), is_error: true },
    notMade,
  ]);
});

test('a cancellation during a chunk stops the calls that have not begun', async () => {
  const batch = await submitCalls(
    Array.from({ length: 70 }, (_, index) => [['act_once', `charge ${index}`] as const]),
  );
  await untilActing();
  const { tools, done } = world();
  await house.drive(
    house.worker({
      tools: {
        async runCalls(calls, options) {
          await house.cancel(batch.id);
          return tools.runCalls(calls, options);
        },
      },
    }),
    { hasten: true },
  );
  expect(done).toHaveLength(64);
  const states = await statesOf(batch);
  expect(states.filter((state) => state === 'succeeded')).toHaveLength(64);
  expect(states.filter((state) => state === 'failed')).toHaveLength(6);
  expect((await house.runsOf(batch.id)).every((run) => run.state === 'cancelled')).toBe(true);
});

test('a once call that timed out after its start is unknown, and the model is told', async () => {
  const batch = await submitCalls([
    [['act_once', 'charge']],
    [['act_once', 'too late to begin']],
    [['act_idempotent', 'put']],
  ]);
  await untilActing();
  const worker = house.worker({
    tools: {
      runCalls: (calls) =>
        Promise.resolve(
          calls.map((request) => reply(request, 'timed_out', whatOf(request) !== 'too late to begin')),
        ),
    },
  });
  await house.drive(worker);
  expect(await statesOf(batch)).toEqual(['unknown', 'failed', 'failed']);
  expect(
    await house.rows(
      `select sum(failed_tool_calls)::int as failed, sum(unknown_tool_calls)::int as unknown from batch_tally where batch_id = $1`,
      [batch.id],
    ),
  ).toEqual([{ failed: 3, unknown: 1 }]);
  const [charge] = await resultsOf(batch.run_ids[0]);
  expect(charge?.content).toMatch(/may or may not have taken effect.*charge is timed_out/);
  expect(await resultsOf(batch.run_ids[1])).toMatchObject([
    { content: 'too late to begin is timed_out', is_error: true },
  ]);
});

describe('places of calls that must not be repeated', () => {
  /** The runs of a chunk with more such calls than may be in doubt. */
  const many = (): Promise<SubmittedBatch> =>
    submitCalls(Array.from({ length: 70 }, (_, index) => [['act_once', `charge ${index}`] as const]));

  test('are free again when their batch was cancelled between the read and the journal', async () => {
    const batch = await many();
    await untilActing();
    const { tools, done } = world();
    const worker = house.worker({ tools });
    const cancelling: FlowDeps = {
      ...worker,
      callSlots: {
        async run(work) {
          const result = await work();
          await house.cancel(batch.id);
          return result;
        },
      },
    };
    await runToolCalls(cancelling);
    await house.drive(worker, { hasten: true });
    expect(done).toEqual([]);
    expect((await statesOf(batch)).every((state) => state === 'failed')).toBe(true);
  });

  test('are free again when the results of their runs cannot be stored', async () => {
    await refuse('message', `new.role = 'user' and new.step_number = 1`);
    const batch = await many();
    await untilActing();
    const { tools, done } = world();
    const worker = house.worker({ tools });
    expect(await runToolCalls(worker)).toMatchObject({ outcome: 'poison', left: 70, poisoned: 0 });
    await house.rows('drop trigger arsenic on message');
    await house.drive(worker, { hasten: true });
    expect(done).toHaveLength(70);
    expect(new Set((await house.runsOf(batch.id)).map((run) => run.stop_reason))).toEqual(
      new Set(['end_turn']),
    );
  });
});

test('a chunk that crashes workers comes back in halves, and a single run that crashes them ends', async () => {
  const batch = await submitCalls([[['act_none', 'harmless']], [['act_none', 'deadly']]]);
  await untilActing();
  const { tools, done } = world();
  const worker = house.worker({ tools });
  const dieWithAll = () =>
    house.rows(
      `update run_chunk set lease_owner = 'dead', lease_until = app_now() - interval '1 second', lease_epoch = 9,
              takeovers = 2, next_due_at = app_now()`,
    );
  await dieWithAll();
  expect(await runToolCalls(worker)).toMatchObject({ outcome: 'halved', runs: 2 });
  expect(done).toEqual([]);
  await house.rows('delete from run_chunk where run_ids[1] = $1', [batch.run_ids[0]]);
  for (const outcome of ['halved', 'halved', 'poison']) {
    await dieWithAll();
    expect(await runToolCalls(worker)).toMatchObject({ outcome, runs: 1 });
  }
  expect(done).toEqual([]);
  expect((await house.runsOf(batch.id))[1]).toMatchObject({ state: 'failed', stop_reason: 'poison' });
});

test('a chunk whose arguments take long to check does not stop the renewal of leases', async () => {
  const texts = Array.from({ length: 40 }, (_, index) => `${index} `.padEnd(990, 'x'));
  const batch = await submitCalls(texts.map((text) => [['act_checked', text]]));
  await untilActing();
  const { tools, done } = world();
  const worker = house.worker({ tools });
  const stretch = await longestStretchOf(async () => {
    expect(await runToolCalls(worker)).toMatchObject({ calls: 40, ended: 0 });
  });
  expect(stretch).toBeLessThan(0.25);
  expect(timesDone(done)).toEqual(Object.fromEntries(texts.map((text) => [text, 1])));
  expect(await house.runsOf(batch.id)).toMatchObject(texts.map(() => ({ state: 'ready' })));
});
