import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { lockConversations } from '../../locks/run/lock-conversations.ts';
import { uuidArray } from '../../uuid-array.ts';
import { expectRows } from './decided-rows.ts';
import { putChunk } from './run-chunks.ts';
import { cancelSequences, openContextsAnew, type WaitedRun } from './sequences.ts';

/** Runs that waited for a conversation until now; the caller adjusts their counts by `talliesOfPassing`. */
export interface PassedOn {
  readonly started: readonly WaitedRun[];
  readonly cancelled: readonly WaitedRun[];
}

export const NONE_PASSED_ON: PassedOn = { started: [], cancelled: [] };

/**
 * Gives each free conversation, or conversation of the given ended runs, to its longest waiting run, or frees it.
 * A waiting run of an isolated conversation is the next of a sequence: it starts in a fresh context once the run before it
 * in its batch has ended as `end_turn` or `tool_rule`. After any other end the rest of the sequence is cancelled.
 * Runs of batches being cancelled are skipped, and so are locked runs, which the sweep starts later.
 * It first fixes the part of the ended runs that later requests show. Then waiting messages enter the conversations, before
 * the input of the started runs.
 * Locks: the conversations in id order, after runs. Index: `run_queued`, primary key of `waiting_message`.
 */
export async function passConversationsOn(
  trx: Tx,
  conversationIds: readonly string[],
  endedRunIds: readonly string[],
): Promise<PassedOn> {
  await lockConversations(trx, conversationIds);
  await endContexts(trx, endedRunIds, conversationIds);
  const ids = uuidArray(conversationIds);
  // A separate statement: it sees runs that took or joined a conversation during the wait for its lock.
  const { rows } = await sql<PassedConversation>`
    with freed as materialized (
      select c.id from conversation c
       where c.id = any(${ids}::uuid[])
         and (c.run_id is null or c.run_id in (select unnest(${uuidArray(endedRunIds)}::uuid[])))),
    next_runs as materialized (
      select f.id as conversation_id, n.id as run_id, n.batch_id, n.project_id,
             case when n.id is null then null
                  when (select a.conversation_id = f.id from agent a where a.id = n.agent_id) then 'shared'
                  else (select case when p.ended_at is null then 'early'
                                    when p.stop_reason in ('end_turn', 'tool_rule') then 'next' else 'over' end
                          from run p where p.batch_id = n.batch_id and p.ordinal = n.ordinal - 1) end as turn
        from freed f
        left join lateral (
          select r.id, r.batch_id, r.project_id, r.agent_id, r.ordinal from run r join batch b on b.id = r.batch_id
           where r.conversation_id = f.id and r.started_at is null and r.ended_at is null and b.state <> 'cancelling'
           order by r.created_at, r.id limit 1 for no key update of r skip locked) n on true),
    handed as (
      update conversation c set run_id = case when h.turn in ('shared', 'next') then h.run_id end
        from next_runs h where c.id = any(${ids}::uuid[]) and c.id = h.conversation_id)
    select conversation_id, run_id, batch_id, project_id, turn, has_waiting
      from (select n.*, exists (
                select from waiting_message w where w.conversation_id = n.conversation_id ${UNMERGED}) as has_waiting
              from next_runs n) p
     where run_id is not null or has_waiting
  `.execute(trx);
  if (rows.length === 0) return NONE_PASSED_ON;
  await enterWaitingMessages(
    trx,
    rows.flatMap(({ has_waiting, conversation_id }) => (has_waiting ? [conversation_id] : [])),
  );
  const cancelled = await cancelSequences(
    trx,
    rows.flatMap(({ turn, conversation_id }) => (turn === 'over' ? [conversation_id] : [])),
  );
  const started = rows.flatMap((row) => (row.turn === 'shared' || row.turn === 'next' ? [row] : []));
  const [first] = started;
  if (first === undefined) return { started, cancelled };
  await startNextRuns(trx, started);
  await openContextsAnew(
    trx,
    started.filter(({ turn }) => turn === 'next').map((row) => row.run_id),
  );
  const runIds = started.map((row) => row.run_id);
  await putChunk(trx, { project: first.project_id, kind: 'ready', runIds, delayMs: 0 });
  return { started, cancelled };
}

/** A freed conversation with its next run, or with waiting messages alone. */
type PassedConversation = { readonly has_waiting: boolean } & (
  | (WaitedRun & { readonly turn: Turn })
  | ({ readonly [Key in Exclude<keyof WaitedRun, 'conversation_id'>]: null } & {
      readonly conversation_id: string;
      readonly turn: null;
    })
);

/** Moves waiting messages to the ends of their conversations, in order of arrival. The caller holds the conversations. */
async function enterWaitingMessages(trx: Tx, conversationIds: readonly string[]): Promise<void> {
  if (conversationIds.length === 0) return;
  await sql`
    with entering as (
      delete from waiting_message where conversation_id = any((select ${uuidArray(conversationIds)}::uuid[])::uuid[])
      returning *),
    tops as materialized (
      select u.id, coalesce((select m.seq from message m where m.conversation_id = u.id order by m.seq desc limit 1), 0) as seq
        from unnest((select ${uuidArray(conversationIds)}::uuid[])) as u(id))
    insert into message (project_id, conversation_id, seq, role, content, otid, name, said_at, created_at)
    select e.project_id, e.conversation_id, t.seq + row_number() over (partition by e.conversation_id order by e.place),
           e.role, e.content, e.otid, e.name, e.said_at, e.created_at
      from entering e join tops t on t.id = e.conversation_id
  `.execute(trx);
}

/**
 * The turn of a waiting run.
 * - `shared`: in its agent's conversation, where each run starts after any end.
 * - `next`: in a sequence, after a good end.
 * - `over`: in a sequence, after any other end.
 * - `early`: the run before it in its sequence was locked; the sweep looks again.
 */
type Turn = 'shared' | 'next' | 'over' | 'early';

/**
 * Ends the context of runs for later requests. An agent may clear its message buffer. The messages of a run that failed
 * because of its content are hidden, or every later request would fail too; so is a suspended turn that was never finished,
 * which may hold a call without a result.
 */
async function endContexts(
  trx: Tx,
  endedRunIds: readonly string[],
  conversationIds: readonly string[],
): Promise<void> {
  if (endedRunIds.length === 0) return;
  // Most runs leave their conversation unchanged; only the others are examined. Agents are looked up individually, with the
  // number of runs hidden from the planner, which would scan both tables for a chunk.
  const { rows: leaving } = await sql<{ id: string }>`
    select r.id from run r
     where r.id = any((select ${uuidArray(endedRunIds)}::uuid[])::uuid[]) and r.first_seq is not null
       and ((r.state = 'failed' and r.stop_reason in ('context_overflow', 'invalid_request', 'poison'))
            or (r.trail ->> 'pauses')::int > 0
            or (select a.message_buffer_autoclear from agent a where a.id = r.agent_id))
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
       where r.id = any(${uuidArray(leaving.map(({ id }) => id))}::uuid[])),
    hidden as (
      -- By ctid, looked up per run: a join scans a table without statistics. No other transaction updates messages.
      update message m set shown = false
       where m.ctid = any (array(
         select x.ctid from ended e cross join lateral (
           select y.ctid from message y
            where y.conversation_id = e.conversation_id and y.seq between e.hide_from_seq and e.last_seq and y.shown
           offset 0) x
          where e.hide_from_seq is not null)))
    update conversation c set context_from_seq = e.last_seq + 1, summary_to_seq = null
      from ended e
     where c.id = any(${uuidArray(conversationIds)}::uuid[]) and c.id = e.conversation_id and c.run_id = e.id
       and e.message_buffer_autoclear
  `.execute(trx);
}

/** Appends the input of started runs to their conversations and makes the runs ready. */
async function startNextRuns(trx: Tx, nextRuns: readonly WaitedRun[]): Promise<void> {
  // The expected state is a parameter: as a literal, a planner without statistics for it expects one row.
  const payload = nextRuns.map(({ conversation_id, run_id }) => ({
    c: conversation_id,
    r: run_id,
    f: 'queued',
  }));
  await expectRows(
    'run',
    nextRuns.length,
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
