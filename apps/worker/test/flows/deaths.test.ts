import type {} from '../../../../test/global-setup.ts';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import type { FlowDeps, HookPoint } from '../../src/flow-parts/deps.ts';
import type { ToolRequest } from '../../src/tools/runner.ts';
import type { ToolPort } from '../../../../test/runners-of.ts';
import { call, openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: (['none', 'idempotent', 'once'] as const).map((side_effects) => ({
      name: `act_${side_effects}`,
      description: 'Does something in the world.',
      input_schema: { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] },
      side_effects,
      return_char_limit: 1_000,
      timeout_ms: 1_000,
    })),
  });
});
afterEach(() => house.close());

/** A tool host that records its calls. */
function world(): { tools: ToolPort; done: ToolRequest[] } {
  const done: ToolRequest[] = [];
  return {
    done,
    tools: {
      async runCalls(calls) {
        done.push(...calls);
        return calls.map(({ call_id, tool_name }) => ({
          call_id,
          status: 'succeeded' as const,
          result: `${tool_name} is done`,
          duration_ms: 1,
          started: true,
        }));
      },
    },
  };
}

/** Hooks inside a transaction: there the connection breaks, which rolls it back. */
const IN_TRANSACTION: ReadonlySet<HookPoint> = new Set<HookPoint>([
  'compose.before_commit',
  'ingest.before_commit',
  'tools.before_commit',
  'finish.before_commit',
]);

const powerCut = (): Error => Object.assign(new Error('the power is cut'), { code: '57P01' });

/** Drives a worker to the `nth` visit of `point`, where the power is cut: no cleanup runs, and its leases expire. */
async function workUntilDeathAt(
  point: HookPoint,
  nth: number,
  parts: { tools: ToolPort },
): Promise<FlowDeps> {
  const death = Promise.withResolvers<void>();
  let visits = 0;
  const doomed = house.worker({
    ...parts,
    owner: 'doomed',
    hooks: (at) => {
      if (at !== point || ++visits !== nth) return;
      death.resolve();
      if (IN_TRANSACTION.has(point)) throw powerCut();
      return new Promise(() => undefined);
    },
  });
  const db = doomed.db.withPlugin({
    transformQuery({ node }) {
      if (visits >= nth) throw powerCut();
      return node;
    },
    transformResult: ({ result }) => Promise.resolve(result),
  });
  const driving = house.drive({ ...doomed, db }, { hasten: true });
  driving.catch(() => undefined);
  await Promise.race([death.promise, driving]);
  expect(visits).toBe(nth);
  // A dead worker renews nothing.
  doomed.leases.close();
  if (IN_TRANSACTION.has(point)) await expect(driving).rejects.toThrow('the power is cut');
  await house.bury(doomed);
  return doomed;
}

function submitWork(): Promise<SubmittedBatch> {
  return house.submit(
    Array.from({ length: 8 }, (_, index) => ({
      input: [
        `Customer ${index}.`,
        call('core_memory_append', { label: 'notes', content: `seen ${index}` }),
        call('act_none', { what: `look ${index}` }),
        call('act_idempotent', { what: `put ${index}` }),
      ].join('\n'),
      blocks: { notes: '' },
      tools: ['core_memory_append', 'act_none', 'act_idempotent'],
    })),
  );
}

const POINTS: readonly (readonly [HookPoint, number])[] = [
  ['compose.before_commit', 2],
  ['compose.after_commit', 1],
  ['submit.after_claim', 1],
  ['submit.after_encode', 2],
  ['submit.after_write_ahead', 1],
  ['submit.before_post', 2],
  ['submit.after_post', 1],
  ['submit.after_post', 3],
  ['submit.after_commit', 1],
  ['poll.after_look', 1],
  ['ingest.after_claim', 1],
  ['ingest.before_chunk', 2],
  ['ingest.before_commit', 1],
  ['ingest.before_commit', 2],
  ['ingest.after_commit', 1],
  ['ingest.before_end', 2],
  ['tools.after_claim', 1],
  ['tools.after_journal', 1],
  ['tools.after_calls', 1],
  ['tools.after_calls', 2],
  ['tools.before_commit', 1],
  ['tools.after_commit', 1],
  ['finish.before_commit', 1],
];

test.each(POINTS)(
  'crash at %s, visit %i: another worker finishes, and nothing is applied or paid twice',
  async (point, nth) => {
    const batch = await submitWork();
    const { tools, done } = world();
    await workUntilDeathAt(point, nth, { tools });
    await house.drive(house.worker({ tools, settings: { chunk_lines: 3 } }), { hasten: true, rounds: 500 });

    expect(await house.rows('select state from batch where id = $1', [batch.id])).toEqual([
      { state: 'completed' },
    ]);
    expect(await house.runsOf(batch.id)).toMatchObject(
      batch.run_ids.map(() => ({ state: 'completed', stop_reason: 'end_turn', step_number: 4 })),
    );
    const applied = await house.rows(
      'select run_id, number from step where applied_at is not null group by 1, 2 having count(*) <> 1',
    );
    expect(applied).toEqual([]);
    const [steps] = await house.rows<{ count: number }>(
      'select count(*)::int as count from step where applied_at is not null',
    );
    const { totals, repeated } = house.simulator.control.ledger();
    expect({ billed: totals.requests, twice: repeated.content_hashes }).toEqual({
      billed: steps?.count,
      twice: 0,
    });
    // Every memory was written once, and every conversation has neither gaps nor duplicates.
    const memories = await house.rows<{ value: string; revision: number }>(
      `select v.value, v.revision from run r join agent_block ab on ab.agent_id = r.agent_id
       join block_revision v on v.block_id = ab.block_id and v.revision > 1 where r.batch_id = $1 order by r.ordinal`,
      [batch.id],
    );
    expect(memories).toEqual(batch.run_ids.map((_, index) => ({ value: `\nseen ${index}`, revision: 2 })));
    expect(
      await house.rows(
        'select run_id from message where run_id is not null group by 1 having count(*) <> 8 or max(seq) - min(seq) <> 7',
      ),
    ).toEqual([]);
    const tally = await house.rows(
      'select sum(completed)::int as completed, sum(steps)::int as steps, sum(tool_calls)::int as calls from batch_tally',
    );
    expect(tally).toEqual([{ completed: 8, steps: 32, calls: 24 }]);
    // A repeated call has the same key, so that its receiver can tell.
    const keys = new Map(done.map((request) => [request.tool_use_id, request.idempotency_key]));
    for (const request of done) expect(request.idempotency_key).toBe(keys.get(request.tool_use_id));
    expect(new Set(done.map((request) => request.idempotency_key)).size).toBe(16);
    // No lease is held any more.
    expect(
      await house.rows(
        `select 1 from provider_batch where lease_owner is not null union all select 1 from run_chunk
        union all select 1 from credential where lease_owner is not null`,
      ),
    ).toEqual([]);
  },
);

test.each([
  ['tools.after_journal', 0],
  ['tools.after_calls', 1],
  ['tools.before_commit', 1],
] as const)(
  'a once call is not repeated after a crash at %s, and the model is told that its outcome is unknown',
  async (point, made) => {
    const batch = await house.submit([
      {
        input: [
          call('act_once', { what: 'charge' }),
          call('act_idempotent', { what: 'put' }, true),
          call('core_memory_append', { label: 'notes', content: 'seen' }, true),
        ].join('\n'),
        blocks: { notes: '' },
        tools: ['act_once', 'act_idempotent', 'core_memory_append'],
      },
    ]);
    const { tools, done } = world();
    await workUntilDeathAt(point, 1, { tools });
    await house.drive(house.worker({ tools }), { hasten: true });

    expect(done.filter((request) => request.tool_name === 'act_once')).toHaveLength(made);
    // Its neighbour may be repeated, and is, under the same key.
    const puts = done.filter((request) => request.tool_name === 'act_idempotent');
    expect(puts).toHaveLength(made + 1);
    expect(new Set(puts.map((request) => request.idempotency_key)).size).toBe(1);

    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', step_number: 2 }]);
    expect(
      await house.rows('select tool_name, state from tool_call where run_id = $1 order by call_index', [
        batch.run_ids[0],
      ]),
    ).toEqual([
      { tool_name: 'act_once', state: 'unknown' },
      { tool_name: 'act_idempotent', state: 'succeeded' },
      { tool_name: 'core_memory_append', state: 'succeeded' },
    ]);
    const [results] = await house.rows<{ content: { content: string; is_error?: boolean }[] }>(
      `select content from message where run_id = $1 and role = 'user' and step_number = 1 and seq > 2`,
      [batch.run_ids[0]],
    );
    expect(results?.content).toHaveLength(3);
    expect(results?.content[0]).toMatchObject({ is_error: true });
    expect(results?.content[0]?.content).toMatch(/interrupted.*may or may not have taken effect/);
    expect(results?.content[1]?.is_error ?? false).toBe(false);
  },
);

test('a worker that resumes after its leases expired changes nothing', async () => {
  const batch = await submitWork();
  const { tools } = world();
  const frozen = Promise.withResolvers<void>();
  const thawed = Promise.withResolvers<void>();
  let visits = 0;
  const zombie = house.worker({
    tools,
    owner: 'zombie',
    hooks: async (at) => {
      if (at !== 'ingest.before_chunk' || ++visits !== 1) return;
      frozen.resolve();
      await thawed.promise;
    },
  });
  const driving = house.drive(zombie, { hasten: true });
  driving.catch(() => undefined);
  await frozen.promise;
  await house.rows(
    `update provider_batch set lease_until = app_now() - interval '1 millisecond' where lease_owner = 'zombie'`,
  );
  await house.drive(house.worker({ tools }), { hasten: true });
  const before = await house.rows('select count(*)::int from message');
  thawed.resolve();
  await expect(driving).rejects.toMatchObject({ code: 'fenced' });
  expect(await house.rows('select count(*)::int from message')).toEqual(before);
  expect((await house.runsOf(batch.id)).every((run) => run.state === 'completed')).toBe(true);
});
