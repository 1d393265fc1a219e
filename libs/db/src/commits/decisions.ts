import type { StepDecision, StepKey, ToolKind, ToolsDecision } from '@nightshift/agent-core';
import { toStorable, toStorableText } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../connect.ts';
import type { BlockChange } from './block-change.ts';
import { writeBlockChanges } from './block-changes.ts';
import { lockConversations } from '../locks/lock-conversations.ts';
import type { LockedRun } from '../locks/lock-runs.ts';
import { settleReservations } from './reservations.ts';
import { writeSummaries } from './summaries.ts';

/** A call of an answer, as its row is first written. Memory calls and rejected ones come with their result. */
export interface NewToolCall {
  readonly call_index: number;
  readonly tool_use_id: string;
  readonly tool_name: string;
  readonly kind: ToolKind | 'rejected';
  readonly state: 'pending' | 'succeeded' | 'failed';
  /** Kept only while other calls of the step are pending; null once all results are in a message. */
  readonly held_result: string | null;
  /** What only the caller can give; default: nothing. */
  readonly awaits?: 'approval' | 'answer' | null;
}

/** One run's part of a commit: its row as locked, what was decided, and what its calls came to. */
export interface DecidedRun {
  readonly run: LockedRun;
  readonly decision: StepDecision;
  readonly calls: readonly NewToolCall[];
  /** Set when every call has its result already: the step is settled in the same commit. */
  readonly settled: ToolsDecision | null;
}

/** What a commit set in motion: what the caller rings the bell for. */
export interface CommitReport {
  readonly ready: boolean;
  readonly tools: boolean;
  readonly ended_batch_ids: readonly string[];
  readonly ended_runs: number;
}

/**
 * Applies decided result lines: steps, messages, tool calls, changes of blocks, runs, counts, chunks and conversations,
 * one statement a kind whatever the number of runs. The caller holds the lease of the provider batch (`holdLease`) and
 * the locks of the runs (`lockRuns`) and blocks. A step that is no longer as decided makes the whole commit fail.
 *
 * Lock order: provider batch → runs → agents → blocks → budgets of capped batches → batch tallies → conversations.
 */
export async function commitDecisions(
  trx: Tx,
  decided: readonly DecidedRun[],
  changes: readonly BlockChange[],
  ids: { readonly chunk_ids: readonly [string, string, string]; readonly tally_slot: number },
): Promise<CommitReport> {
  if (decided.length === 0) return { ready: false, tools: false, ended_batch_ids: [], ended_runs: 0 };
  await writeSteps(trx, decided);
  await writeMessages(
    trx,
    decided.flatMap(({ run, decision, settled }) => [
      ...decision.messages.map((message) => messageRow(run, decision.key.number, message)),
      ...(settled === null ? [] : [messageRow(run, decision.key.number, settled.message)]),
    ]),
  );
  await writeToolCalls(trx, decided);
  await writeBlockChanges(trx, changes);
  await writeSummaries(trx, decided);
  const moves = decided.map(({ run, decision, settled }) => ({
    run,
    move: settled?.run ?? decision.run,
    last_seq: run.last_seq + decision.messages.length + (settled === null ? 0 : 1),
  }));
  await moveRuns(trx, moves);
  await settleReservations(
    trx,
    decided.flatMap(({ run, decision: { key, step } }) =>
      run.budgeted
        ? [
            {
              batch_id: run.batch_id,
              key,
              billed: { cost_nanousd: step.cost_nanousd ?? 0, output_tokens: step.usage.output_tokens },
            },
          ]
        : [],
    ),
  );
  await addToTallies(
    trx,
    decided.map(({ run, decision, settled, calls }) => ({
      run,
      move: settled?.run ?? decision.run,
      steps: decision.step.applies ? 1 : 0,
      tool_calls: calls.length,
      step: decision.step,
    })),
    ids.tally_slot,
  );
  return settleMoves(trx, moves, ids.chunk_ids);
}

/** One run's part of a commit of tool results. */
export interface ToolResultsOfRun {
  readonly run: LockedRun;
  readonly decision: ToolsDecision;
  readonly calls: readonly {
    readonly call_index: number;
    readonly state: 'succeeded' | 'failed' | 'unknown';
    readonly duration_ms: number;
  }[];
}

/**
 * Applies the results of all calls of a chunk of runs and deletes the chunk, or does so for the runs of `part` alone:
 * they leave the chunk, which is deleted with its last run. The caller holds the lease of the chunk and the locks of
 * the runs, and those of the blocks that are changed. Same lock order as {@link commitDecisions}.
 */
export async function commitToolResults(
  trx: Tx,
  chunkId: string,
  results: readonly ToolResultsOfRun[],
  ids: { readonly chunk_ids: readonly [string, string, string]; readonly tally_slot: number },
  part: readonly string[] | null = null,
  changes: readonly BlockChange[] = [],
): Promise<CommitReport> {
  await sql`
    with over as (
      delete from run_chunk
       where id = ${chunkId}::uuid and (${part}::uuid[] is null or run_ids <@ ${part}::uuid[]))
    update run_chunk
       set run_ids = array(select u.id from unnest(run_ids) with ordinality as u(id, place)
                            where u.id <> all(${part}::uuid[]) order by u.place)
     where id = ${chunkId}::uuid and ${part}::uuid[] is not null and not run_ids <@ ${part}::uuid[]
  `.execute(trx);
  if (results.length === 0) return { ready: false, tools: false, ended_batch_ids: [], ended_runs: 0 };
  await sql`
    with d as materialized (
      select * from json_to_recordset(${JSON.stringify(
        results.flatMap(({ run, calls }) =>
          calls.map((call) => ({ run_id: run.id, step: run.step_number, ...call })),
        ),
      )}::json) as d(run_id uuid, step int, call_index int, state text, duration_ms int))
    update tool_call c
       set state = d.state, held_result = null, duration_ms = coalesce(c.duration_ms, d.duration_ms),
           started_at = coalesce(c.started_at, app_now()), ended_at = coalesce(c.ended_at, app_now())
      from d
     where c.run_id = d.run_id and c.step_number = d.step and c.call_index = d.call_index
  `.execute(trx);
  await expectRows(
    'step',
    results.length,
    sql`
    with d as materialized (
      select * from json_to_recordset(${JSON.stringify(
        results.map(({ run }) => ({ run_id: run.id, number: run.step_number, attempt: run.attempt })),
      )}::json) as d(run_id uuid, number int, attempt int))
    update step s set state = 'done', ended_at = app_now()
      from d
     where s.run_id = d.run_id and s.number = d.number and s.attempt = d.attempt and s.state = 'answered'
    `,
    trx,
  );
  await writeMessages(
    trx,
    results.map(({ run, decision }) => messageRow(run, decision.step_number, decision.message)),
  );
  await writeBlockChanges(trx, changes);
  const moves = results.map(({ run, decision }) => ({
    run,
    move: decision.run,
    last_seq: decision.message.seq,
  }));
  await moveRuns(trx, moves);
  await addToTallies(
    trx,
    results
      .filter(({ decision }) => decision.run.state !== 'ready')
      .map(({ run, decision }) => ({ run, move: decision.run, steps: 0, tool_calls: 0, step: null })),
    ids.tally_slot,
  );
  return settleMoves(trx, moves, ids.chunk_ids);
}

/**
 * Ends runs whose next step may not be sent. The caller holds their locks and has taken their steps out; they are in no
 * chunk. Same lock order as {@link commitDecisions}.
 */
export async function commitRunsEnded(
  trx: Tx,
  ended: readonly { readonly run: LockedRun; readonly move: StepDecision['run'] }[],
  ids: { readonly chunk_ids: readonly [string, string, string]; readonly tally_slot: number },
): Promise<CommitReport> {
  const moves = ended.map(({ run, move }) => ({ run, move, last_seq: run.last_seq }));
  await moveRuns(trx, moves);
  await addToTallies(
    trx,
    moves.map(({ run, move }) => ({ run, move, steps: 0, tool_calls: 0, step: null })),
    ids.tally_slot,
  );
  return settleMoves(trx, moves, ids.chunk_ids);
}

interface RunMoved {
  readonly run: LockedRun;
  readonly move: StepDecision['run'];
  readonly last_seq: number;
}

/** Writes a statement's rows and insists on their number: fewer means that a guard refused one. */
async function expectRows(
  what: string,
  count: number,
  statement: ReturnType<typeof sql>,
  trx: Tx,
): Promise<void> {
  const { numAffectedRows } = await statement.execute(trx);
  if (Number(numAffectedRows ?? 0) !== count) {
    throw new Error(
      `Expected to write ${count} rows of ${what}, wrote ${String(numAffectedRows)}: nothing is kept.`,
    );
  }
}

async function writeSteps(trx: Tx, decided: readonly DecidedRun[]): Promise<void> {
  const payload = decided.map(({ decision: { key, step }, settled }) => ({
    r: key.run_id,
    n: key.number,
    a: key.attempt,
    f: step.from,
    s: settled === null ? step.state : 'done',
    ap: step.applies,
    sr: step.stop_reason,
    mo: step.model,
    mi: step.message_id,
    e: step.error,
    i: step.usage.input_tokens,
    o: step.usage.output_tokens,
    w5: step.usage.cache_write_5m_tokens,
    w1: step.usage.cache_write_1h_tokens,
    cr: step.usage.cache_read_tokens,
    c: step.cost_nanousd,
  }));
  await expectRows(
    'step',
    decided.length,
    sql`
    with d as materialized (
      select * from json_to_recordset(${storableJson(payload)}::json)
        as d(r uuid, n int, a int, f text, s text, ap boolean, sr text, mo text, mi text, e json,
             i int, o int, w5 int, w1 int, cr int, c bigint))
    update step t
       set state = d.s, stop_reason = d.sr, model = d.mo, provider_message_id = d.mi, error = d.e,
           input_tokens = d.i, output_tokens = d.o, cache_write_5m_tokens = d.w5, cache_write_1h_tokens = d.w1,
           cache_read_tokens = d.cr, cost_nanousd = d.c,
           applied_at = case when d.ap then app_now() end,
           ended_at = case when d.s = 'answered' then null else app_now() end
      from d
     where t.run_id = d.r and t.number = d.n and t.attempt = d.a and t.state = d.f
    `,
    trx,
  );
}

interface MessageRow {
  readonly run: LockedRun;
  readonly step_number: number;
  readonly seq: number;
  readonly role: string;
  readonly content_json: string;
  readonly shown: boolean;
}

function messageRow(
  run: LockedRun,
  stepNumber: number,
  message: {
    readonly seq: number;
    readonly role: string;
    readonly content_json: string;
    readonly shown: boolean;
  },
): MessageRow {
  return { run, step_number: stepNumber, ...message };
}

/** The contents are spliced into the parameter as they are: verbatim, and without being printed a second time. */
async function writeMessages(trx: Tx, rows: readonly MessageRow[]): Promise<void> {
  if (rows.length === 0) return;
  const payload = rows.map(
    ({ run, step_number, seq, role, content_json, shown }) =>
      `{"p":"${run.project_id}","c":"${run.conversation_id}","q":${seq},"r":"${run.id}","n":${step_number},"o":"${role}","h":${shown},"t":${toStorable(content_json)}}`,
  );
  await expectRows(
    'message',
    rows.length,
    sql`
    insert into message (project_id, conversation_id, seq, run_id, step_number, role, content, shown)
    select p, c, q, r, n, o, t, h
      from json_to_recordset(${`[${payload.join(',')}]`}::json)
        as d(p uuid, c uuid, q int, r uuid, n int, o text, h boolean, t json)
    `,
    trx,
  );
}

async function writeToolCalls(trx: Tx, decided: readonly DecidedRun[]): Promise<void> {
  const payload = decided.flatMap(({ run, decision, calls }) =>
    calls.map((call) => ({
      p: run.project_id,
      r: run.id,
      n: decision.key.number,
      x: call.call_index,
      u: toStorableText(call.tool_use_id),
      t: toStorableText(call.tool_name),
      k: call.kind,
      s: call.state,
      h: call.held_result === null ? null : toStorableText(call.held_result),
      w: call.awaits ?? undefined,
    })),
  );
  if (payload.length === 0) return;
  await sql`
    insert into tool_call (project_id, run_id, step_number, call_index, tool_use_id, tool_name, kind, state, held_result,
                           awaits, started_at, ended_at, duration_ms)
    select p, r, n, x, u, t, k, s, h, w,
           case when s <> 'pending' then app_now() end, case when s <> 'pending' then app_now() end,
           case when s <> 'pending' then 0 end
      from json_to_recordset(${JSON.stringify(payload)}::json)
        as d(p uuid, r uuid, n int, x int, u text, t text, k text, s text, h text, w text)
  `.execute(trx);
}

async function moveRuns(trx: Tx, moves: readonly RunMoved[]): Promise<void> {
  const payload = moves.map(({ run, move, last_seq }) => ({
    r: run.id,
    f: run.state,
    s: move.state,
    q: last_seq,
    n: move.state === 'ready' ? move.step_number : run.step_number,
    a: move.state === 'ready' ? move.attempt : run.attempt,
    x: move.state === 'ready' ? move.failures : run.failures,
    b: move.state === 'ready' ? move.token_boost : run.token_boost,
    t: move.state === 'ready' ? move.trail : undefined,
    re: 'stop_reason' in move ? move.result : undefined,
    sr: 'stop_reason' in move ? move.stop_reason : null,
    e: 'error' in move ? move.error : null,
  }));
  await expectRows(
    'run',
    moves.length,
    sql`
    with d as materialized (
      select * from json_to_recordset(${storableJson(payload)}::json)
        as d(r uuid, f text, s text, q int, n int, a int, x int, b int, t json, re json, sr text, e json))
    update run t
       set state = d.s, step_number = d.n, attempt = d.a, failures = d.x, token_boost = d.b, last_seq = d.q,
           trail = coalesce(d.t, t.trail),
           result = d.re, stop_reason = d.sr, error = d.e, ended_at = case when d.sr is not null then app_now() end
      from d
     where t.id = d.r and t.state = d.f
    `,
    trx,
  );
}

interface Tallied {
  readonly run: LockedRun;
  readonly move: StepDecision['run'];
  readonly steps: number;
  readonly tool_calls: number;
  readonly step: StepDecision['step'] | null;
}

async function addToTallies(trx: Tx, tallied: readonly Tallied[], slot: number): Promise<void> {
  const sums = new Map<string, Record<string, number | string>>();
  for (const { run, move, steps, tool_calls, step } of tallied) {
    let sum = sums.get(run.batch_id);
    if (sum === undefined) {
      sum = {
        batch: run.batch_id,
        project: run.project_id,
        completed: 0,
        failed: 0,
        cancelled: 0,
        expired: 0,
        requires_action: 0,
        steps: 0,
        tool_calls: 0,
        i: 0,
        o: 0,
        w5: 0,
        w1: 0,
        cr: 0,
        c: 0,
        u: 0,
      };
      sums.set(run.batch_id, sum);
    }
    const add = (field: string, amount: number): void => {
      (sum as Record<string, number>)[field] = ((sum as Record<string, number>)[field] ?? 0) + amount;
    };
    if (move.state !== 'ready' && move.state !== 'acting') add(move.state, 1);
    add('steps', steps);
    add('tool_calls', tool_calls);
    if (step !== null) {
      add('i', step.usage.input_tokens);
      add('o', step.usage.output_tokens);
      add('w5', step.usage.cache_write_5m_tokens);
      add('w1', step.usage.cache_write_1h_tokens);
      add('cr', step.usage.cache_read_tokens);
      add('c', step.cost_nanousd ?? 0);
      add('u', step.cost_nanousd === null ? 1 : 0);
    }
  }
  await addTallies(trx, [...sums.values()], slot);
}

/** Adds sums to the counts of batches, in batch id order. */
async function addTallies(
  trx: Tx,
  sums: readonly Record<string, number | string>[],
  slot: number,
): Promise<void> {
  if (sums.length === 0) return;
  await sql`
    insert into batch_tally as t (batch_id, slot, project_id, completed, failed, cancelled, expired, requires_action,
      steps, tool_calls, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, cost_nanousd,
      unpriced_steps)
    select batch, ${slot}::int, project, completed, failed, cancelled, expired, requires_action, steps, tool_calls, i, o, w5, w1, cr, c, u
      from json_to_recordset(${JSON.stringify(sums)}::json)
        as d(batch uuid, project uuid, completed int, failed int, cancelled int, expired int, requires_action int, steps int, tool_calls int,
             i bigint, o bigint, w5 bigint, w1 bigint, cr bigint, c bigint, u int)
     order by batch
    on conflict (batch_id, slot) do update
       set completed = t.completed + excluded.completed, failed = t.failed + excluded.failed,
           cancelled = t.cancelled + excluded.cancelled, expired = t.expired + excluded.expired,
           requires_action = t.requires_action + excluded.requires_action,
           steps = t.steps + excluded.steps, tool_calls = t.tool_calls + excluded.tool_calls,
           input_tokens = t.input_tokens + excluded.input_tokens, output_tokens = t.output_tokens + excluded.output_tokens,
           cache_write_5m_tokens = t.cache_write_5m_tokens + excluded.cache_write_5m_tokens,
           cache_write_1h_tokens = t.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
           cache_read_tokens = t.cache_read_tokens + excluded.cache_read_tokens,
           cost_nanousd = t.cost_nanousd + excluded.cost_nanousd,
           unpriced_steps = t.unpriced_steps + excluded.unpriced_steps
  `.execute(trx);
}

async function settleMoves(
  trx: Tx,
  moves: readonly RunMoved[],
  [readyId, toolsId, startedId]: readonly [string, string, string],
): Promise<CommitReport> {
  const project = moves[0]?.run.project_id ?? '';
  const ready = moves.flatMap(({ run, move }) =>
    move.state === 'ready' ? [{ id: run.id, delay: move.delay_ms }] : [],
  );
  const acting = moves.filter(({ move }) => move.state === 'acting').map(({ run }) => run.id);
  await putReadyChunks(trx, project, ready, readyId);
  if (acting.length > 0)
    await putChunk(trx, { id: toolsId, project, kind: 'tools', runIds: acting, delayMs: 0 });
  const ended = moves.filter(({ move }) => 'stop_reason' in move);
  const started =
    ended.length > 0
      ? await passConversationsOn(
          trx,
          ended.map(({ run }) => run.conversation_id),
          ended.map(({ run }) => run.id),
          startedId,
        )
      : 0;
  return {
    ready: ready.length > 0 || started > 0,
    tools: acting.length > 0,
    ended_batch_ids: [...new Set(ended.map(({ run }) => run.batch_id))],
    ended_runs: ended.length,
  };
}

/** Retries wait each its own time, rounded up to seconds: runs of one delay share a chunk. */
async function putReadyChunks(
  trx: Tx,
  project: string,
  ready: readonly { readonly id: string; readonly delay: number }[],
  firstId: string,
): Promise<void> {
  const byDelay = Map.groupBy(ready, ({ delay }) => delay);
  let first = true;
  for (const [delayMs, runs] of byDelay) {
    const id = first ? firstId : null;
    first = false;
    await putChunk(trx, { id, project, kind: 'ready', runIds: runs.map((run) => run.id), delayMs });
  }
}

/** Puts runs up for the next act. Called in the transaction that moved them to `ready` or `acting`. */
export async function putChunk(
  trx: Tx,
  chunk: {
    /** Null: the database makes one (several delays in one commit, which is rare). */
    readonly id: string | null;
    readonly project: string;
    readonly kind: 'ready' | 'tools';
    readonly runIds: readonly string[];
    readonly delayMs: number;
  },
): Promise<void> {
  await sql`
    insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
    values (coalesce(${chunk.id}::uuid, gen_random_uuid()), ${chunk.project}::uuid, ${chunk.kind}, ${chunk.runIds}::uuid[],
            app_now() + ${chunk.delayMs}::float8 * interval '1 millisecond')
  `.execute(trx);
}

/**
 * Gives conversations that nobody holds, or that one of the given runs held until it ended, to the run that has waited
 * longest for each, or leaves them free, and says how many runs it started. Locks the conversations in id order, after
 * runs. Runs whose batch is being cancelled are passed over: they will not be answered. So is a waiting run that another
 * transaction has locked; the sweep finds it. Says first what later requests see of the ended runs. Served by run_queued.
 */
export async function passConversationsOn(
  trx: Tx,
  conversationIds: readonly string[],
  endedRunIds: readonly string[],
  chunkId: string,
): Promise<number> {
  await lockConversations(trx, conversationIds);
  await endContexts(trx, endedRunIds, conversationIds);
  // A later statement: it sees who took or joined a conversation while its lock was waited for.
  const { rows } = await sql<Heir>`
    with freed as materialized (
      select c.id from conversation c
       where c.id = any(${conversationIds}::uuid[])
         and case when c.run_id is null then true else c.run_id = any(${endedRunIds}::uuid[]) end),
    heirs as materialized (
      select f.id as conversation_id, n.id as run_id, n.project_id
        from freed f
        left join lateral (
          select r.id, r.project_id from run r join batch b on b.id = r.batch_id
           where r.conversation_id = f.id and r.started_at is null and r.ended_at is null and b.state <> 'cancelling'
           order by r.created_at, r.id limit 1 for no key update of r skip locked) n on true),
    handed as (
      update conversation c set run_id = h.run_id
        from heirs h where c.id = any(${conversationIds}::uuid[]) and c.id = h.conversation_id)
    select conversation_id, run_id, project_id from heirs where run_id is not null
  `.execute(trx);
  const [first] = rows;
  if (first === undefined) return 0;
  await startHeirs(trx, rows);
  const runIds = rows.map((row) => row.run_id);
  await putChunk(trx, { id: chunkId, project: first.project_id, kind: 'ready', runIds, delayMs: 0 });
  return rows.length;
}

/**
 * What ended runs leave to the requests of later ones: nothing where the agent clears its message buffer; not its own
 * messages where a run failed for what they hold, or every later request would fail for the same; not a turn that the
 * provider suspended and nobody finished, which may hold a call of its own tools without a result.
 */
async function endContexts(
  trx: Tx,
  endedRunIds: readonly string[],
  conversationIds: readonly string[],
): Promise<void> {
  if (endedRunIds.length === 0) return;
  await sql`
    with ended as materialized (
      select r.id, r.conversation_id, r.last_seq, a.message_buffer_autoclear,
             case when r.state = 'failed' and r.stop_reason in ('context_overflow', 'invalid_request', 'poison')
                  then r.first_seq else p.from_seq end as hide_from_seq
        from run r join agent a on a.id = r.agent_id
        left join lateral (
          select coalesce(max(m.seq) filter (where m.role <> 'assistant'), 0) + 1 as from_seq
            from message m
           where (r.trail ->> 'pauses')::int > 0 and r.stop_reason not in ('end_turn', 'stop_sequence')
             and m.conversation_id = r.conversation_id and m.seq between r.first_seq and r.last_seq and m.shown
          having exists (select from step s
                          where s.run_id = r.id and s.number = (array_agg(m.step_number order by m.seq desc))[1]
                            and s.stop_reason = 'pause_turn')
          ) p on true
       where r.id = any(${endedRunIds}::uuid[]) and r.first_seq is not null),
    hidden as (
      -- By ctid, and looked up run by run: joined, a table that was never counted is scanned. Nobody else updates messages.
      update message m set shown = false
       where m.ctid = any (array(
         select x.ctid from ended e cross join lateral (
           select y.ctid from message y
            where y.conversation_id = e.conversation_id and y.seq between e.hide_from_seq and e.last_seq and y.shown
           offset 0) x
          where e.hide_from_seq is not null)))
    update conversation c set context_from_seq = e.last_seq + 1, summary_to_seq = null
      from ended e
     where c.id = any(${conversationIds}::uuid[]) and c.id = e.conversation_id and c.run_id = e.id
       and e.message_buffer_autoclear
  `.execute(trx);
}

interface Heir {
  readonly conversation_id: string;
  readonly run_id: string;
  readonly project_id: string;
}

/** Appends the input of runs that have waited to their conversations and makes them ready. */
async function startHeirs(trx: Tx, heirs: readonly Heir[]): Promise<void> {
  const payload = heirs.map(({ conversation_id, run_id }) => ({
    c: conversation_id,
    r: run_id,
    f: 'queued',
  }));
  await expectRows(
    'run',
    heirs.length,
    sql`
    with tops as materialized (
      select d.c, d.r, d.f,
             coalesce((select m.seq from message m where m.conversation_id = d.c order by m.seq desc limit 1), 0) as seq,
             coalesce((select json_array_length(q.messages) from queued_input q where q.run_id = d.r), 0) as messages
        from json_to_recordset(${JSON.stringify(payload)}::json) as d(c uuid, r uuid, f text)),
    input as (
      insert into message (project_id, conversation_id, seq, run_id, role, content, otid, name)
      select q.project_id, t.c, t.seq + e.place::int, t.r, e.value->>'role', e.value->'content', e.value->>'otid',
             e.value->>'name'
        from tops t join queued_input q on q.run_id = t.r
       cross join lateral json_array_elements(q.messages) with ordinality e(value, place)),
    used as (delete from queued_input q using tops t where q.run_id = t.r)
    update run r
       set state = 'ready', started_at = app_now(), first_seq = t.seq + 1, last_seq = t.seq + t.messages
      from tops t
     where r.id = t.r and r.state = t.f
    `,
    trx,
  );
}

/** JSON text whose strings Postgres can store: NUL and lone surrogates are dropped from error texts and names. */
function storableJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'string' ? toStorableText(inner) : inner,
  );
}

/**
 * Marks calls with side effects as begun, before they run: after a crash they are known to be in doubt. Calls of a batch
 * that was cancelled meanwhile are passed over. Returns the calls that may be made. The caller holds the lease of the
 * chunk; locks the rows of the calls.
 */
export async function commitCallsBegun(
  trx: Tx,
  calls: readonly { readonly key: Pick<StepKey, 'run_id' | 'number'>; readonly call_index: number }[],
): Promise<readonly { readonly run_id: string; readonly call_index: number }[]> {
  if (calls.length === 0) return [];
  const { rows } = await sql<{ run_id: string; call_index: number }>`
    with d as materialized (
      select * from json_to_recordset(${JSON.stringify(
        calls.map(({ key, call_index }) => ({ r: key.run_id, n: key.number, x: call_index })),
      )}::json) as d(r uuid, n int, x int))
    update tool_call c set state = 'running', started_at = app_now()
      from d join run on run.id = d.r join batch b on b.id = run.batch_id
     where c.run_id = d.r and c.step_number = d.n and c.call_index = d.x and c.state in ('pending', 'running')
       and b.state not in ('cancelling', 'cancelled')
    returning c.run_id, c.call_index
  `.execute(trx);
  return rows;
}
