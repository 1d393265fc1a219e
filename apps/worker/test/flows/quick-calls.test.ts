import type {} from '../../../../test/global-setup.ts';
import { longestStretchOf } from '../../../../test/cpu-time.ts';
import { toWireId } from '@nightshift/agent-core';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import type { ToolReply, ToolRequest } from '../../src/tools/runner.ts';
import type { ToolPort } from '../../../../test/runners-of.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { QUICK_TOOLS_POLICY_DEFAULT } from '../../src/flow-parts/calls/quick-tools.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { call, LONG_CHECK, openHouse, type House, type SubmittedBatch, type WorkerParts } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: (
      [
        ['act_none', 'none', {}],
        ['act_idempotent', 'idempotent', {}],
        ['act_checked', 'none', LONG_CHECK],
      ] as const
    ).map(([name, side_effects, check]) => ({
      name,
      description: 'Does something.',
      input_schema: {
        type: 'object',
        properties: { what: { type: 'string', ...check } },
        required: ['what'],
      },
      side_effects,
      return_char_limit: 1_000,
      timeout_ms: 1_000,
    })),
  });
});
afterEach(() => house.close());

const POLICY = { ...QUICK_TOOLS_POLICY_DEFAULT, calls_min: 3, mean_ms_max: 5, chunk_ms_max: 5_000 };

type Calls = readonly (readonly [tool: string, input: Readonly<Record<string, string>>])[];

/** A run for each list of calls; all calls of a list are made in one step. */
function submitCalls(runs: readonly Calls[], rules: readonly object[] = []): Promise<SubmittedBatch> {
  return house.submit(
    runs.map((calls) => ({
      input: calls.map(([tool, input], index) => call(tool, input, index > 0)).join('\n'),
      blocks: { notes: '' },
      tools: ['act_none', 'act_idempotent', 'act_checked', 'core_memory_append'],
      ...(rules.length === 0 ? {} : { tool_rules: rules }),
    })),
  );
}

const looks = (count: number): readonly Calls[] =>
  Array.from({ length: count }, (_, index) => [['act_none', { what: `look ${index}` }]]);

const whatOf = (request: ToolRequest): string => (request.arguments as { what: string }).what;

/** A tool host that records its calls. */
function world(replyTo: (request: ToolRequest) => Partial<ToolReply> = () => ({})): {
  readonly tools: ToolPort;
  readonly asked: ToolRequest[][];
} {
  const asked: ToolRequest[][] = [];
  return {
    asked,
    tools: {
      runCalls(calls) {
        asked.push([...calls]);
        return Promise.resolve(
          calls.map((request) => ({
            call_id: request.call_id,
            status: 'succeeded',
            result: `${whatOf(request)}: done`,
            duration_ms: 2,
            started: true,
            ...replyTo(request),
          })),
        );
      },
    },
  };
}

const quickWorker = (parts: WorkerParts): FlowDeps => house.worker({ quickTools: POLICY, ...parts });

/** Takes all runs to the point where their first answers are committed. */
async function untilAnswered(worker: FlowDeps): Promise<void> {
  for (const flow of [composeProviderBatch, submitProviderBatch, pollProviderBatches, ingestResults]) {
    for (let round = 0; round < 50; round++) {
      if ((await flow(worker)).worked) break;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

const statesOf = (batch: SubmittedBatch): Promise<readonly { run: string; step: string; call: string }[]> =>
  house.rows(
    `select r.state as run, s.state as step, string_agg(c.state, ' ' order by c.call_index) as call
       from run r
       join step s on s.run_id = r.id and s.number = 1
       left join tool_call c on c.run_id = r.id and c.step_number = 1
      where r.batch_id = $1 group by r.ordinal, r.state, s.state order by r.ordinal`,
    [batch.id],
  );

describe('calls without side effects of a fast tool', () => {
  test('end in the commit of their answer, the first calls as probes', async () => {
    const batch = await submitCalls(looks(10));
    const { tools, asked } = world();
    await untilAnswered(quickWorker({ tools }));
    expect(asked.map((calls) => calls.length)).toEqual([3, 7]);
    expect(new Set(asked.flat().map(({ run_id }) => run_id))).toEqual(
      new Set(batch.run_ids.map((id) => toWireId('run', id))),
    );
    expect(await statesOf(batch)).toEqual(
      Array.from({ length: 10 }, () => ({ run: 'ready', step: 'done', call: 'succeeded' })),
    );
    expect(await house.rows(`select 1 from run_chunk where kind = 'tools'`)).toEqual([]);
    const rows = await house.rows<{ content: unknown; duration_ms: number; held_result: string | null }>(
      `select m.content, c.duration_ms, c.held_result from run r
         join message m on m.conversation_id = r.conversation_id and m.seq = r.last_seq
         join tool_call c on c.run_id = r.id
        where r.batch_id = $1 order by r.ordinal`,
      [batch.id],
    );
    expect(rows).toMatchObject(
      Array.from({ length: 10 }, (_, index) => ({
        content: [{ type: 'tool_result', content: `look ${index}: done` }],
        duration_ms: 2,
        held_result: null,
      })),
    );
    await house.drive(quickWorker({ tools }));
    expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(
      Array.from({ length: 10 }, () => 'end_turn'),
    );
    expect(asked.flat()).toHaveLength(10);
  });

  test('are answered in one message with calls of memory tools and refused calls', async () => {
    const [runId] = (
      await submitCalls([
        [
          ['act_none', { what: 'look' }],
          ['core_memory_append', { label: 'notes', content: 'seen' }],
          ['act_none', { wrong: 'argument' }],
          ['no_such_tool', {}],
        ],
      ])
    ).run_ids;
    const { tools, asked } = world();
    await untilAnswered(quickWorker({ tools }));
    expect(asked.flat().map(whatOf)).toEqual(['look']);
    const [message] = await house.rows<{ content: readonly { content: string; is_error?: boolean }[] }>(
      `select content from message where run_id = $1 and role = 'user' and step_number = 1`,
      [runId],
    );
    expect(message?.content.map(({ content, is_error }) => [content.slice(0, 14), is_error])).toEqual([
      ['look: done', undefined],
      [expect.any(String), undefined],
      [expect.any(String), true],
      ['Tool not found', true],
    ]);
  });

  test('that fail tell the model so', async () => {
    const batch = await submitCalls(looks(1));
    const { tools } = world(() => ({ status: 'failed', result: 'no such thing' }));
    await untilAnswered(quickWorker({ tools }));
    expect(await statesOf(batch)).toEqual([{ run: 'ready', step: 'done', call: 'failed' }]);
  });

  test('have the same keys as in the ordinary way', async () => {
    const quick = world();
    await submitCalls(looks(1));
    await untilAnswered(
      quickWorker({ tools: { runCalls: (calls) => quick.tools.runCalls(calls).then(() => []) } }),
    );
    const ordinary = world();
    await house.drive(house.worker({ tools: ordinary.tools }));
    expect(quick.asked.flat()).toEqual(ordinary.asked.flat());
  });
});

describe('the ordinary way is taken by', () => {
  test('all calls of a step with a side effect', async () => {
    const batch = await submitCalls([
      [
        ['act_none', { what: 'look' }],
        ['act_idempotent', { what: 'put' }],
      ],
    ]);
    const { tools, asked } = world();
    await untilAnswered(quickWorker({ tools }));
    expect(asked).toEqual([]);
    expect(await statesOf(batch)).toEqual([{ run: 'acting', step: 'answered', call: 'pending pending' }]);
  });

  test('calls that never end, and from then on all calls of that tool', async () => {
    const batch = await submitCalls(looks(8));
    const { tools, asked } = world((request) =>
      whatOf(request) === 'look 1' ? { status: 'timed_out', result: 'too slow' } : {},
    );
    await untilAnswered(quickWorker({ tools, settings: { chunk_lines: 1_000 } }));
    expect(asked.map((calls) => calls.length)).toEqual([3]);
    const states = await statesOf(batch);
    expect(states.filter(({ run }) => run === 'ready')).toHaveLength(2);
    expect(states.filter(({ run, call }) => run === 'acting' && call === 'pending')).toHaveLength(6);
  });

  test('calls of a slow tool', async () => {
    const batch = await submitCalls(looks(8));
    const { tools, asked } = world(() => ({ duration_ms: 90 }));
    const worker = quickWorker({ tools, settings: { chunk_lines: 4, chunks_in_flight: 1 } });
    await untilAnswered(worker);
    expect(asked.map((calls) => calls.length)).toEqual([3]);
    await house.drive(worker);
    expect((await house.runsOf(batch.id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
  });

  test('all calls while there is no tool host', async () => {
    const batch = await submitCalls(looks(2));
    await untilAnswered(quickWorker({ tools: { runCalls: () => Promise.reject(new Error('away')) } }));
    expect(await statesOf(batch)).toMatchObject([{ run: 'acting' }, { run: 'acting' }]);
  });

  test('calls of agents with tool rules, whose history decides the allowed calls', async () => {
    const batch = await submitCalls(looks(1), [
      { type: 'max_count_per_step', tool_name: 'act_none', max_count_limit: 1 },
    ]);
    const { tools, asked } = world();
    await untilAnswered(quickWorker({ tools }));
    expect(asked).toEqual([]);
    expect(await statesOf(batch)).toMatchObject([{ run: 'acting' }]);
  });
});

test('a worker that crashes before the commit leaves nothing: calls are repeated, answers applied once', async () => {
  const batch = await submitCalls(looks(4));
  const first = world();
  const dying = quickWorker({
    owner: 'dying',
    tools: first.tools,
    hooks(point) {
      if (point === 'ingest.before_commit')
        throw Object.assign(new Error('the power is cut'), { code: '57P01' });
    },
  });
  await expect(untilAnswered(dying)).rejects.toThrow('the power is cut');
  expect(first.asked.flat()).toHaveLength(4);
  expect(await statesOf(batch)).toMatchObject(Array.from({ length: 4 }, () => ({ step: 'sealed' })));
  await house.bury(dying);
  const second = world();
  await house.drive(quickWorker({ tools: second.tools }), { hasten: true });
  expect(second.asked.flat()).toHaveLength(4);
  expect((await house.runsOf(batch.id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
});

test('an answer that is already applied makes no call when the results are read again', async () => {
  const batch = await submitCalls(looks(4));
  const { tools, asked } = world();
  const worker = quickWorker({ tools });
  await untilAnswered(worker);
  expect(asked.flat()).toHaveLength(4);
  await house.rows(`update provider_batch set state = 'ended', next_due_at = app_now(), ingested_at = null`);
  expect(await ingestResults(worker)).toMatchObject({ applied: 0, refused: 4 });
  expect(asked.flat()).toHaveLength(4);
  expect(await statesOf(batch)).toMatchObject(Array.from({ length: 4 }, () => ({ run: 'ready' })));
});

test('a batch cancelled during its calls ends without their results', async () => {
  const batch = await submitCalls(looks(2));
  const { tools } = world();
  const cancelling: ToolPort = {
    async runCalls(calls) {
      await house.cancel(batch.id);
      return tools.runCalls(calls);
    },
  };
  await untilAnswered(quickWorker({ tools: cancelling }));
  expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'cancelled' }, { state: 'cancelled' }]);
  expect(await house.rows(`select 1 from message where role = 'user' and step_number = 1`)).toEqual([]);
});

test('hanging calls delay a chunk only by its time limit, and go the ordinary way', async () => {
  const batch = await submitCalls(looks(6));
  const { tools } = world();
  const asked: number[] = [];
  const hanging: ToolPort = {
    runCalls(calls, options) {
      asked.push(calls.length);
      return asked.length === 1 ? tools.runCalls(calls, options) : new Promise(() => undefined);
    },
  };
  await untilAnswered(quickWorker({ tools: hanging, quickTools: { ...POLICY, chunk_ms_max: 50 } }));
  expect(asked).toEqual([3, 3]);
  const states = await statesOf(batch);
  expect(states.filter(({ run, call }) => run === 'ready' && call === 'succeeded')).toHaveLength(3);
  expect(states.filter(({ run, call }) => run === 'acting' && call === 'pending')).toHaveLength(3);
});

test('calls whose arguments take long to check do not stop the renewal of leases', async () => {
  const text = 'x'.repeat(990);
  const batch = await submitCalls(Array.from({ length: 60 }, () => [['act_checked', { what: text }]]));
  const { tools } = world();
  const worker = quickWorker({ tools });
  expect(await longestStretchOf(() => untilAnswered(worker))).toBeLessThan(0.25);
  expect(new Set((await statesOf(batch)).map(({ run, call }) => `${run} ${call}`))).toEqual(
    new Set(['ready succeeded']),
  );
});

test('a result that cannot be stored is no fault of the line: its call and its neighbours’ go the ordinary way', async () => {
  await house.rows(`
    create function refuse_arsenic() returns trigger language plpgsql as $$
    begin
      if new.role = 'user' and new.content::text like '%arsenic%' then raise exception 'no arsenic' using errcode = '22P05'; end if;
      return new;
    end $$;
    create trigger arsenic before insert on message for each row execute function refuse_arsenic()`);
  const batch = await submitCalls(looks(4));
  const { tools, asked } = world((request) => (whatOf(request) === 'look 2' ? { result: 'arsenic' } : {}));
  await untilAnswered(quickWorker({ tools, settings: { chunk_lines: 1_000 } }));
  expect(await statesOf(batch)).toMatchObject(Array.from({ length: 4 }, () => ({ run: 'acting' })));
  expect(asked.flat()).toHaveLength(4);
  await house.drive(quickWorker({ tools }), { hasten: true });
  expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual([
    'end_turn',
    'end_turn',
    'poison',
    'end_turn',
  ]);
});

test('a cancelled batch makes no further call', async () => {
  const batch = await submitCalls(looks(4));
  const { tools, asked } = world();
  const worker = quickWorker({ tools, settings: { chunk_lines: 2, chunks_in_flight: 1 } });
  let chunks = 0;
  await untilAnswered({
    ...worker,
    async hooks(point) {
      if (point !== 'ingest.before_chunk') return;
      chunks += 1;
      if (chunks === 2) await house.cancel(batch.id);
    },
  });
  expect(asked.flat()).toHaveLength(2);
});
