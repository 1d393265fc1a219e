import {
  NO_USAGE,
  decideStep,
  decideResults,
  RETRY_POLICY_DEFAULT,
  toolResultsMessage,
  toStorable,
  toStorableText,
  type BlockChange,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  claimToolsChunk,
  commitCallsBegun,
  commitDecisions,
  commitQuarantinedLines,
  commitToolResults,
  holdLease,
  inTransaction,
  lockBlocksOfAgents,
  lockRuns,
  readActingRuns,
  readSealedRequests,
  type Database,
  type DecidedRun,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import {
  acceptFleet,
  act,
  ALICE,
  answer,
  callsTools,
  decide,
  DONE,
  ingest,
  leaseOf,
  moduleCall,
  seal,
  sealAndEnd,
  USAGE,
} from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() =>
  sql`truncate batch, run, provider_batch, run_chunk, step, message, tool_call cascade`.execute(db),
);

/** Reads everything that a commit writes. */
async function everything(): Promise<unknown> {
  const { rows } = await sql`
    select (select json_agg(s order by s.run_id, s.number, s.attempt) from step s) as steps,
           (select json_agg(m order by m.conversation_id, m.seq) from message m) as messages,
           (select json_agg(t order by t.run_id, t.step_number, t.call_index) from tool_call t) as calls,
           (select json_agg(r order by r.id) from run r) as runs,
           (select json_agg(c order by c.id) from run_chunk c) as chunks,
           (select json_agg(v order by v.block_id, v.revision) from block_revision v) as revisions,
           (select json_agg(t order by t.batch_id, t.slot) from batch_tally t) as tallies,
           (select json_agg(e order by e.batch_id, e.slot, e.version) from ended_runs e) as ended,
           (select json_agg(f order by f.run_id) from run_failure f) as failures,
           (select json_agg(c order by c.id) from conversation c) as conversations`.execute(db);
  return rows[0];
}

async function tallyOf(batchId: string): Promise<Record<string, number>> {
  const { rows } = await sql<Record<string, number>>`
    select coalesce(sum(completed), 0)::int as completed, coalesce(sum(failed), 0)::int as failed,
           coalesce(sum(cancelled), 0)::int as cancelled, coalesce(sum(expired), 0)::int as expired,
           coalesce(sum(steps), 0)::int as steps, coalesce(sum(tool_calls), 0)::int as tool_calls,
           coalesce(sum(failed_tool_calls), 0)::int as failed_tool_calls,
           coalesce(sum(input_tokens), 0)::int as input_tokens, coalesce(sum(output_tokens), 0)::int as output_tokens,
           coalesce(sum(cost_nanousd), 0)::int as cost_nanousd
      from batch_tally where batch_id = ${batchId}::uuid`.execute(db);
  return rows[0]!;
}

const byRun = (runIds: readonly string[], outcome = DONE): ReadonlyMap<string, typeof DONE> =>
  new Map(runIds.map((id) => [id, outcome]));

describe('applying answers', () => {
  test('writes step, message, run and counts of every run at once', async () => {
    const fleet = await acceptFleet(db, 3);
    const lease = await sealAndEnd(db);
    const report = await ingest(db, lease, DONE);
    expect(report).toEqual({ ready: false, tools: false, ended_batch_ids: [fleet.id], ended_runs: 3 });
    const steps = await db.selectFrom('step').selectAll().execute();
    expect(steps).toHaveLength(3);
    for (const step of steps) {
      expect(step).toMatchObject({
        state: 'done',
        stop_reason: 'end_turn',
        model: 'claude-haiku-4-5',
        provider_message_id: 'msg_1',
        cost_nanousd: 1_000,
        ...USAGE,
      });
      expect(step.applied_at).toEqual(step.ended_at);
    }
    const runs = await db.selectFrom('run').selectAll().execute();
    for (const run of runs)
      expect(run).toMatchObject({
        state: 'completed',
        stop_reason: 'end_turn',
        first_seq: 1,
        last_seq: 2,
        error: null,
      });
    const answers = await db.selectFrom('message').selectAll().where('role', '=', 'assistant').execute();
    expect(answers.map((message) => [message.seq, message.step_number, message.shown])).toEqual([
      [2, 1, true],
      [2, 1, true],
      [2, 1, true],
    ]);
    expect(await tallyOf(fleet.id)).toEqual({
      completed: 3,
      failed: 0,
      cancelled: 0,
      expired: 0,
      steps: 3,
      tool_calls: 0,
      failed_tool_calls: 0,
      input_tokens: 300,
      output_tokens: 30,
      cost_nanousd: 3_000,
    });
    const holders = await db
      .selectFrom('conversation')
      .select('id')
      .where('run_id', 'is not', null)
      .execute();
    expect(holders).toEqual([]);
  });

  test('sums counts over commits and slots, failures included', async () => {
    const fleet = await acceptFleet(db, 4);
    const lease = await sealAndEnd(db);
    const [a, b, c, d] = fleet.run_ids as [string, string, string, string];
    await ingest(db, lease, DONE, { run_ids: [a], slot: 0 });
    await ingest(db, lease, DONE, { run_ids: [b], slot: 5 });
    const permanent = {
      kind: 'errored',
      error_class: 'permanent',
      error_type: 'invalid_request_error',
      message: 'no\u0000 \ud800',
    } as const;
    await ingest(db, lease, permanent, { run_ids: [c], slot: 5 });
    await ingest(db, lease, callsTools(2), { run_ids: [d], slot: 0 });
    expect(await tallyOf(fleet.id)).toMatchObject({
      completed: 2,
      failed: 1,
      steps: 3,
      tool_calls: 2,
      input_tokens: 300,
    });
    const failed = await db
      .selectFrom('run')
      .select(['error', 'stop_reason'])
      .where('id', '=', c)
      .executeTakeFirstOrThrow();
    expect(failed).toEqual({
      stop_reason: 'invalid_request',
      error: { message: 'no \ufffd', type: 'invalid_request_error' },
    });
    const chunk = await db.selectFrom('run_chunk').select(['kind', 'run_ids']).execute();
    expect(chunk).toEqual([{ kind: 'tools', run_ids: [d] }]);
  });

  test('delays a retry, which is another attempt of the same step', async () => {
    await acceptFleet(db, 2);
    const lease = await sealAndEnd(db);
    const report = await ingest(db, lease, { kind: 'expired' });
    expect(report).toMatchObject({ ready: true, ended_runs: 0 });
    const [chunk] = await db
      .selectFrom('run_chunk')
      .select(['run_ids', 'next_due_at', 'created_at'])
      .execute();
    expect(chunk!.run_ids).toHaveLength(2);
    expect(chunk!.next_due_at.getTime() - chunk!.created_at.getTime()).toBeGreaterThanOrEqual(
      RETRY_POLICY_DEFAULT.retry_delay_ms - 50,
    );
    await sql`update run_chunk set next_due_at = app_now()`.execute(db);
    await seal(db);
    const steps = await db
      .selectFrom('step')
      .select(['number', 'attempt', 'state'])
      .orderBy('attempt')
      .execute();
    expect(steps.map((step) => [step.number, step.attempt, step.state])).toEqual([
      [1, 1, 'expired'],
      [1, 1, 'expired'],
      [1, 2, 'sealed'],
      [1, 2, 'sealed'],
    ]);
  });
});

describe('an answer is applied at most once', () => {
  test('a repeated commit is refused and stores nothing', async () => {
    const fleet = await acceptFleet(db, 2);
    const lease = await sealAndEnd(db);
    const decided = await inTransaction(db, (trx) => decide(trx, byRun(fleet.run_ids)));
    const commit = () => inTransaction(db, (trx) => commitDecisions(trx, decided));
    await commit();
    const before = await everything();
    await expect(commit()).rejects.toThrow(/rows of step/);
    expect(await everything()).toEqual(before);
    // A second decision finds nothing to do.
    expect(await ingest(db, lease, DONE, { run_ids: fleet.run_ids })).toMatchObject({ ended_runs: 0 });
    expect(await everything()).toEqual(before);
  });

  test('a changed row rolls the whole commit back', async () => {
    const fleet = await acceptFleet(db, 5);
    const lease = await sealAndEnd(db);
    const stale = await inTransaction(db, (trx) => decide(trx, byRun(fleet.run_ids)));
    await ingest(db, lease, DONE, { run_ids: [fleet.run_ids[3]!] });
    const before = await everything();
    await expect(inTransaction(db, (trx) => commitDecisions(trx, stale))).rejects.toThrow(/wrote 4/);
    expect(await everything()).toEqual(before);
  });

  test('an answer to an earlier attempt is refused by the row, whatever the decision', async () => {
    const fleet = await acceptFleet(db, 1);
    await sealAndEnd(db);
    const stale = await inTransaction(db, (trx) => decide(trx, byRun(fleet.run_ids)));
    await sql`update step set attempt = 2`.execute(db);
    await sql`update run set attempt = 2`.execute(db);
    await expect(inTransaction(db, (trx) => commitDecisions(trx, stale))).rejects.toThrow(/rows of step/);
  });

  test('without the state guard, the key still refuses a second applied attempt', async () => {
    const fleet = await acceptFleet(db, 1);
    const lease = await sealAndEnd(db);
    await ingest(db, lease, callsTools());
    await sql`insert into step (project_id, run_id, number, attempt, provider_batch_id, ordinal, state, context_from_seq, context_to_seq,
        block_ids, block_revisions, max_tokens, sealed_at)
      select project_id, run_id, number, 2, provider_batch_id, 1, 'sealed', 0, 1, '{}', '{}', 1, sealed_at from step`.execute(
      db,
    );
    await sql`update run set state = 'in_flight', attempt = 2`.execute(db);
    await expect(ingest(db, lease, DONE, { run_ids: fleet.run_ids })).rejects.toMatchObject({
      constraint: 'message_answer_once',
    });
  });

  test('of two simultaneous commits the second finds the answer applied', async () => {
    const fleet = await acceptFleet(db, 20);
    const lease = await sealAndEnd(db);
    const reports = await Promise.all(
      Array.from({ length: 4 }, () => ingest(db, lease, DONE, { run_ids: fleet.run_ids })),
    );
    expect(reports.map((report) => report.ended_runs).sort()).toEqual([0, 0, 0, 20]);
    expect(await tallyOf(fleet.id)).toMatchObject({ completed: 20, steps: 20 });
  });

  test('an empty commit does nothing', async () => {
    const report = await inTransaction(db, (trx) => commitDecisions(trx, []));
    expect(report).toEqual({ ready: false, tools: false, ended_batch_ids: [], ended_runs: 0 });
  });
});

/** Contents that a database or a parser might change. */
const VERBATIM: readonly (readonly [string, string])[] = [
  ['an escaped NUL', String.raw`[{"type":"text","text":"a\u0000b"}]`],
  ['a lone high surrogate', String.raw`[{"type":"text","text":"a\ud83db"}]`],
  ['a lone low surrogate', String.raw`[{"type":"text","text":"\uDE00"}]`],
  ['an escaped pair', String.raw`[{"type":"text","text":"\ud83d\ude00"}]`],
  ['what looks like an escaped NUL', String.raw`[{"type":"text","text":"C:\\u0000"}]`],
  ['odd whitespace', '[ {\t"type" :"text",\r\n  "text":"x"\n}\n\n]'],
  ['a number beyond doubles', '[{"type":"text","text":"x","n":1e400,"m":123456789012345678901234567890.10}]'],
  ['a negative zero and an exponent', '[{"type":"text","text":"x","n":-0.0,"m":1E+2}]'],
  ['duplicate keys', '[{"type":"text","text":"first","text":"second"}]'],
  ['keys out of order', '[{"z":1,"type":"text","a":2,"text":"x"}]'],
  ['unneeded escapes', String.raw`[{"type":"text","text":"\u0041\/\u003c"}]`],
  ['line separators', '[{"type":"text","text":"\u2028\u2029\u0085\ufeff"}]'],
  ['quotes and backslashes', String.raw`[{"type":"text","text":"\"\\\" \\n ' $1 \\"}]`],
  ['an unknown block', '[{"type":"hologram","depth":[[[[[]]]]],"nothing":null}]'],
  ['text beyond the BMP', '[{"type":"text","text":"😀𝒳"}]'],
  ['NUL in a key', String.raw`[{"type":"text","te\u0000xt":"x","text":"y"}]`],
];

describe('content is stored verbatim', () => {
  test.each(VERBATIM)('%s', async (_what, content_json) => {
    const fleet = await acceptFleet(db, 1);
    const content = [...(JSON.parse(content_json) as { type: string }[])];
    const calls = [...content, { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }];
    const withCall = content_json.replace(
      /\]\s*$/,
      ',{"type":"tool_use","id":"toolu_1","name":"look","input":{}}]',
    );
    await ingest(db, await sealAndEnd(db), answer(calls, { content_json: withCall }));
    const chunk = await claimToolsChunk(db, ALICE);
    const [acting] = await readActingRuns(db, chunk!.run_ids);
    expect(acting!.content).toBe(toStorable(withCall) === withCall ? withCall : acting!.content);
    await act(db, chunk!, 'seen\u0000 \ud800');
    const { id } = await seal(db);
    const [request] = await readSealedRequests(db, id, 0, 1);
    const results = toolResultsMessage([
      { tool_use_id: 'toolu_1', outcome: { ok: true, result: 'seen\u0000 \ud800' } },
    ]);
    expect(request!.messages_json).toBe(
      `[{"role":"user","content":[{"type":"text","text":"go"}]},{"role":"assistant","content":${withCall}},{"role":"user","content":${results}}]`,
    );
    expect(fleet.run_ids).toHaveLength(1);
  });
});

describe('tools', () => {
  test('calls are noted as begun, and their results end the step and delete the chunk', async () => {
    const fleet = await acceptFleet(db, 2);
    await ingest(db, await sealAndEnd(db), callsTools(2));
    expect(await db.selectFrom('step').select('state').execute()).toEqual([
      { state: 'answered' },
      { state: 'answered' },
    ]);
    const chunk = await claimToolsChunk(db, ALICE);
    expect([...chunk!.run_ids].sort()).toEqual([...fleet.run_ids].sort());
    await inTransaction(db, (trx) =>
      commitCallsBegun(trx, [{ key: { run_id: fleet.run_ids[0]!, number: 1 }, call_index: 1 }]),
    );
    const [first, second] = await readActingRuns(db, chunk!.run_ids);
    const journalled = [first, second].find((run) => run!.run_id === fleet.run_ids[0])!;
    expect(journalled.calls.map((call) => [call.call_index, call.state])).toEqual([
      [0, 'pending'],
      [1, 'running'],
    ]);
    const report = await act(db, chunk!);
    expect(report).toMatchObject({ ready: true, tools: false, ended_runs: 0 });
    const calls = await db.selectFrom('tool_call').selectAll().execute();
    for (const call of calls) {
      expect(call).toMatchObject({ state: 'succeeded', held_result: null, duration_ms: 1 });
      expect(call.started_at!.getTime()).toBeLessThanOrEqual(call.ended_at!.getTime());
    }
    expect(await db.selectFrom('step').select('state').execute()).toEqual([
      { state: 'done' },
      { state: 'done' },
    ]);
    const chunks = await db.selectFrom('run_chunk').select(['kind', 'run_ids']).execute();
    expect(chunks.map((row) => [row.kind, row.run_ids.length])).toEqual([['ready', 2]]);
    const runs = await db.selectFrom('run').select(['state', 'step_number', 'last_seq']).execute();
    expect(runs).toEqual(runs.map(() => ({ state: 'ready', step_number: 2, last_seq: 3 })));
    await inTransaction(db, (trx) => commitCallsBegun(trx, []));
  });

  test('a second commit of results is refused and stores nothing', async () => {
    await acceptFleet(db, 2);
    await ingest(db, await sealAndEnd(db), callsTools());
    const chunk = await claimToolsChunk(db, ALICE);
    const results = await inTransaction(db, async (trx) => {
      await holdLease(trx, leaseOf('run_chunk', chunk!));
      const runs = await lockRuns(trx, chunk!.run_ids);
      return [...runs.values()].map((run) => ({
        run,
        decision: decideResults(run, [moduleCall(0, 'toolu_0', { ok: true, result: 'seen' })]),
      }));
    });
    const commit = () => inTransaction(db, (trx) => commitToolResults(trx, chunk!.id, results));
    await commit();
    const before = await everything();
    await expect(commit()).rejects.toThrow(/rows of step/);
    expect(await everything()).toEqual(before);
  });

  test('a chunk without acting runs is deleted, and nothing else changes', async () => {
    await acceptFleet(db, 1);
    await ingest(db, await sealAndEnd(db), callsTools());
    const chunk = await claimToolsChunk(db, ALICE);
    await inTransaction(db, (trx) => commitToolResults(trx, chunk!.id, []));
    expect(await db.selectFrom('run_chunk').selectAll().execute()).toEqual([]);
  });
});

describe('memory', () => {
  /** Simulates the ingest of a call that rewrites the block of every run twice. */
  async function rewrite(
    runIds: readonly string[],
    agentIds: readonly string[],
    texts: readonly string[],
  ): Promise<void> {
    await inTransaction(db, async (trx) => {
      const runs = [...(await lockRuns(trx, runIds)).values()];
      const current = new Map(
        (await lockBlocksOfAgents(trx, agentIds)).map((block) => [block.agent_id, block]),
      );
      const decided = runs.map((run): DecidedRun => {
        const key = { run_id: run.id, number: 1, attempt: 1 };
        const { planned } = moduleCall(0, 'toolu_0');
        const calls = [
          { planned: { ...planned, tool_name: 'memory_rethink', kind: 'memory' as const }, outcome: null },
        ];
        const changes = texts.map((new_memory): BlockChange => {
          const block = current.get(run.agent_id)!;
          const revision = block.revision + 1;
          const value = toStorableText(new_memory);
          current.set(run.agent_id, { ...block, revision, value });
          return {
            kind: 'revised',
            block_id: block.block_id,
            based_on_revision: block.revision,
            value,
            description: block.description,
            resolution: 'clean',
            held: false,
            project_id: run.project_id,
            agent_id: run.agent_id,
            revision,
            run_id: run.id,
            batch_id: run.batch_id,
            step_number: 1,
            tool_use_id: 'toolu_0',
          };
        });
        const decision = decideStep({ run, key, retry: RETRY_POLICY_DEFAULT, calls }, callsTools(), {
          carryOut: () => ({ outcome: { ok: true, result: 'ok' }, changes }),
        });
        if (decision.kind === 'refuse') throw new Error('refused');
        return { run, decision };
      });
      await commitDecisions(trx, decided);
    });
  }

  test('writes of calls become revisions with their writer, settled with the step in the same commit', async () => {
    const fleet = await acceptFleet(db, 3);
    await sealAndEnd(db);
    await rewrite(fleet.run_ids, fleet.agent_ids, ['first', 'second\u0000 \ud800']);
    const revisions = await db
      .selectFrom('block_revision')
      .selectAll()
      .where('run_id', 'in', [...fleet.run_ids])
      .orderBy('revision')
      .execute();
    expect(revisions.map((row) => [row.revision, row.based_on, row.value])).toEqual([
      ...Array.from({ length: 3 }, () => [2, 1, 'first']),
      ...Array.from({ length: 3 }, () => [3, 2, 'second \ufffd']),
    ]);
    expect(revisions[0]).toMatchObject({
      batch_id: fleet.id,
      step_number: 1,
      tool_use_id: 'toolu_0',
      char_limit: 100_000,
      read_only: false,
    });
    const heads = await db
      .selectFrom('block')
      .select('head_revision')
      .innerJoin('agent_block as ab', 'ab.block_id', 'block.id')
      .where('ab.agent_id', 'in', [...fleet.agent_ids])
      .execute();
    expect(heads).toEqual([{ head_revision: 3 }, { head_revision: 3 }, { head_revision: 3 }]);
    const steps = await db.selectFrom('step').select('state').execute();
    expect(new Set(steps.map((step) => step.state))).toEqual(new Set(['done']));
    const { count } = await seal(db);
    expect(count).toBe(3);
    const next = await db
      .selectFrom('step')
      .select(['block_revisions', 'context_to_seq'])
      .where('number', '=', 2)
      .execute();
    expect(next).toEqual(next.map(() => ({ block_revisions: [3], context_to_seq: 3 })));
  });
});

describe('quarantined lines', () => {
  test('are stored once, cut to size and made storable wherever they were cut', async () => {
    await acceptFleet(db, 1);
    const lease = await sealAndEnd(db);
    const batch = await db
      .selectFrom('provider_batch')
      .select(['id', 'project_id'])
      .where('id', '=', lease.id)
      .executeTakeFirstOrThrow();
    const lines = [
      {
        line_number: 1,
        custom_id: null,
        reason: 'unreadable' as const,
        byte_length: 5_000_000_000,
        excerpt: '{"a\u0000\ud83d',
        bill: null,
      },
      // The cut splits a surrogate pair.
      {
        line_number: 2,
        custom_id: `${'x'.repeat(199)}😀`,
        reason: 'foreign' as const,
        byte_length: 1,
        excerpt: '',
        bill: { stop_reason: null, usage: NO_USAGE, message_id: null, model: 'm' },
      },
    ];
    for (let pass = 0; pass < 2; pass++)
      await inTransaction(db, (trx) => commitQuarantinedLines(trx, batch, lines));
    const rows = await db.selectFrom('result_line').selectAll().orderBy('line_number').execute();
    expect(rows.map((row) => [row.line_number, row.reason, row.byte_length, row.excerpt])).toEqual([
      [1, 'unreadable', 5_000_000_000, '{"a\ufffd'],
      [2, 'foreign', 1, ''],
    ]);
    expect(rows[1]!.custom_id).toBe(`${'x'.repeat(199)}\ufffd`);
    expect(rows.map((row) => row.bill)).toMatchObject([null, { model: 'm', usage: NO_USAGE }]);
  });
});
