import type { StepDecision, StepKey, ToolsDecision } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../connect.ts';
import type { BlockChange } from './block-change.ts';
import { plainColumn } from './columns.ts';
import { writeBlockChanges } from './block-changes.ts';
import {
  expectRows,
  messageRow,
  moveRuns,
  writeMessages,
  writeSteps,
  writeToolCalls,
  type DecidedRun,
  type RunMoved,
} from './decided-rows.ts';
import { lockConversations } from '../locks/lock-conversations.ts';
import type { LockedRun } from '../locks/lock-runs.ts';
import { settleReservations } from './reservations.ts';
import { writeSummaries } from './summaries.ts';

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
  const calls = results.flatMap(({ run, calls }) => calls.map((call) => ({ run, call })));
  await sql`
    with d as materialized (
      select * from unnest(
        ${plainColumn(
          'uuid',
          calls.map(({ run }) => run.id),
        )},
        ${plainColumn(
          'int',
          calls.map(({ run }) => run.step_number),
        )},
        ${plainColumn(
          'int',
          calls.map(({ call }) => call.call_index),
        )},
        ${plainColumn(
          'text',
          calls.map(({ call }) => call.state),
        )},
        ${plainColumn(
          'int',
          calls.map(({ call }) => call.duration_ms),
        )}
      ) as d(run_id, step_number, call_index, state, duration_ms))
    update tool_call c
       set state = d.state, held_result = null, duration_ms = coalesce(c.duration_ms, d.duration_ms),
           started_at = coalesce(c.started_at, (select app_now())), ended_at = coalesce(c.ended_at, (select app_now()))
      from d
     where c.run_id = d.run_id and c.step_number = d.step_number and c.call_index = d.call_index
  `.execute(trx);
  await expectRows(
    'step',
    results.length,
    sql`
    with d as materialized (
      select * from unnest(
        ${plainColumn(
          'uuid',
          results.map(({ run }) => run.id),
        )},
        ${plainColumn(
          'int',
          results.map(({ run }) => run.step_number),
        )},
        ${plainColumn(
          'int',
          results.map(({ run }) => run.attempt),
        )}
      ) as d(run_id, number, attempt))
    update step s set state = 'done', ended_at = (select app_now())
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
  // Most runs leave their conversation as it is: only the others are looked at closely.
  const { rows: leaving } = await sql<{ id: string }>`
    select r.id from run r join agent a on a.id = r.agent_id
     where r.id = any(${endedRunIds}::uuid[]) and r.first_seq is not null
       and (a.message_buffer_autoclear
            or (r.state = 'failed' and r.stop_reason in ('context_overflow', 'invalid_request', 'poison'))
            or (r.trail ->> 'pauses')::int > 0)
  `.execute(trx);
  if (leaving.length === 0) return;
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
       where r.id = any(${leaving.map(({ id }) => id)}::uuid[])),
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
