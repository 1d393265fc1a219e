import {
  NightshiftError,
  toStorable,
  toStorableText,
  type AppendedMessage,
  type EndedCall,
  type StepDecision,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import type { RunToDecide } from '../../reads/run/runs-to-decide.ts';
import { unnestRows, textSlices } from '../unnest-rows.ts';
import { storableJson, storableText } from '../json-rows.ts';

/** A run's part of a commit: its row as read, and the decision about its step. */
export interface DecidedRun {
  readonly run: RunToDecide;
  readonly decision: StepDecision;
}

/** Executes a statement and checks its number of rows: fewer mean that a guard refused a row. Throws: `stale`. */
export async function expectRows(
  what: string,
  count: number,
  statement: ReturnType<typeof sql>,
  trx: Tx,
): Promise<void> {
  const { numAffectedRows } = await statement.execute(trx);
  if (Number(numAffectedRows ?? 0) !== count) {
    throw new NightshiftError(
      'stale',
      `Expected to write ${count} rows of ${what}, wrote ${String(numAffectedRows)}. Nothing was stored.`,
    );
  }
}

/** Writes the outcomes of decided steps, each only in its expected state. */
export async function writeSteps(trx: Tx, decided: readonly DecidedRun[]): Promise<void> {
  const rows = decided.map(({ decision }) => decision);
  await expectRows(
    'step',
    rows.length,
    sql`
    with d as materialized (
      select * from ${unnestRows(rows, {
        run_id: ['uuid', ({ key }) => key.run_id],
        number: ['int', ({ key }) => key.number],
        attempt: ['int', ({ key }) => key.attempt],
        was: ['word', ({ step }) => step.from],
        state: ['word', ({ step }) => step.state],
        applies: ['boolean', ({ step }) => step.applies],
        stop_reason: ['text', ({ step }) => storableText(step.stop_reason)],
        model: ['text', ({ step }) => storableText(step.model)],
        message_id: ['text', ({ step }) => storableText(step.message_id)],
        error: ['text', ({ step }) => jsonOf(step.error)],
        input_tokens: ['int', ({ step }) => step.usage.input_tokens],
        output_tokens: ['int', ({ step }) => step.usage.output_tokens],
        cache_write_5m_tokens: ['int', ({ step }) => step.usage.cache_write_5m_tokens],
        cache_write_1h_tokens: ['int', ({ step }) => step.usage.cache_write_1h_tokens],
        cache_read_tokens: ['int', ({ step }) => step.usage.cache_read_tokens],
        cost_nanousd: ['bigint', ({ step }) => step.cost_nanousd],
      })})
    update step t
       set state = d.state, stop_reason = d.stop_reason, model = d.model, provider_message_id = d.message_id,
           error = d.error::json, input_tokens = d.input_tokens, output_tokens = d.output_tokens,
           cache_write_5m_tokens = d.cache_write_5m_tokens, cache_write_1h_tokens = d.cache_write_1h_tokens,
           cache_read_tokens = d.cache_read_tokens, cost_nanousd = d.cost_nanousd,
           applied_at = case when d.applies then (select app_now()) end,
           ended_at = case when d.state <> 'answered' then (select app_now()) end
      from d
     where t.run_id = d.run_id and t.number = d.number and t.attempt = d.attempt and t.state = d.was
    `,
    trx,
  );
}

/** A message of a run, as stored. */
export interface MessageRow extends AppendedMessage {
  readonly run: RunToDecide;
  /** Null for an attempt that was quarantined: another attempt of its step may still be applied. */
  readonly step_number: number | null;
}

/** The row of a decided message. */
export function messageRow(
  run: RunToDecide,
  stepNumber: number | null,
  message: AppendedMessage,
): MessageRow {
  return { run, step_number: stepNumber, ...message };
}

/** Writes messages with verbatim contents. */
export async function writeMessages(trx: Tx, rows: readonly MessageRow[]): Promise<void> {
  if (rows.length === 0) return;
  const contents = textSlices(rows.map((row) => toStorable(row.content_json)));
  await expectRows(
    'message',
    rows.length,
    sql`
    insert into message (project_id, conversation_id, seq, run_id, step_number, role, content, shown, created_at)
    select d.project_id, d.conversation_id, d.seq, d.run_id, d.step_number, d.role,
           convert_from(substr(${contents.bytes}::bytea, d.start, d.length), 'UTF8')::json, d.shown, (select app_now())
      from ${unnestRows(rows, {
        project_id: ['uuid', ({ run }) => run.project_id],
        conversation_id: ['uuid', ({ run }) => run.conversation_id],
        seq: ['int', ({ seq }) => seq],
        run_id: ['uuid', ({ run }) => run.id],
        step_number: ['int', ({ step_number }) => step_number],
        role: ['word', ({ role }) => role],
        start: ['int', (_row, index) => contents.startOf(index)],
        length: ['int', (_row, index) => contents.lengthOf(index)],
        shown: ['boolean', ({ shown }) => shown],
      })}
    `,
    trx,
  );
}

/** Writes the calls of decided answers; ended calls get their time. */
export async function writeToolCalls(trx: Tx, decided: readonly DecidedRun[]): Promise<void> {
  const rows = decided.flatMap(({ run, decision: { key, calls } }) =>
    calls.map((call) => ({ run, key, call })),
  );
  if (rows.length === 0) return;
  await sql`
    insert into tool_call (project_id, run_id, step_number, call_index, tool_use_id, tool_name, kind, state, held_result,
                           awaits, started_at, ended_at, duration_ms)
    select d.project_id, d.run_id, d.number, d.call_index, d.tool_use_id, d.tool_name, d.kind, d.state, d.held_result, d.awaits,
           case when d.state <> 'pending' then (select app_now()) end, case when d.state <> 'pending' then (select app_now()) end,
           d.duration_ms
      from ${unnestRows(rows, {
        project_id: ['uuid', ({ run }) => run.project_id],
        run_id: ['uuid', ({ run }) => run.id],
        number: ['int', ({ key }) => key.number],
        call_index: ['int', ({ call }) => call.call_index],
        tool_use_id: ['text', ({ call }) => toStorableText(call.tool_use_id)],
        tool_name: ['text', ({ call }) => toStorableText(call.tool_name)],
        kind: ['word', ({ call }) => call.kind],
        state: ['word', ({ call }) => call.state],
        held_result: ['text', ({ call }) => storableText(call.held_result)],
        awaits: ['word', ({ call }) => call.awaits],
        duration_ms: ['int', ({ call }) => (call.state === 'pending' ? null : call.duration_ms)],
      })}
  `.execute(trx);
}

/** The counts of calls that a commit ended, by batch. */
export interface EndedCallCounts {
  readonly batch_id: string;
  readonly project_id: string;
  readonly ended_tool_calls: number;
  readonly failed_tool_calls: number;
  readonly unknown_tool_calls: number;
}

/** The sums of {@link EndedCallCounts} over calls that ended in `state`, and were in `was` before. */
export const ENDED_CALL_COUNTS = sql`
  (count(*) filter (where was in ('pending', 'running')))::int as ended_tool_calls,
  sum((state in ('failed', 'unknown'))::int - (was in ('failed', 'unknown'))::int)::int as failed_tool_calls,
  sum((state = 'unknown')::int - (was = 'unknown')::int)::int as unknown_tool_calls`;

/**
 * Ends the calls of runs' present steps; their results are in a message now. Returns the change of the counts: the rows of
 * some calls have had their outcome before. The caller's lease and locks keep other writers from the rows.
 */
export async function endToolCalls(
  trx: Tx,
  ended: readonly { readonly run: RunToDecide; readonly call: EndedCall }[],
): Promise<readonly EndedCallCounts[]> {
  const { rows } = await sql<EndedCallCounts>`
    with d as materialized (
      select * from ${unnestRows(ended, {
        batch_id: ['uuid', ({ run }) => run.batch_id],
        project_id: ['uuid', ({ run }) => run.project_id],
        run_id: ['uuid', ({ run }) => run.id],
        step_number: ['int', ({ run }) => run.step_number],
        call_index: ['int', ({ call }) => call.call_index],
        state: ['word', ({ call }) => call.state],
        duration_ms: ['int', ({ call }) => call.duration_ms],
      })}),
    ended as (
      update tool_call c
         set state = d.state, held_result = null, duration_ms = coalesce(c.duration_ms, d.duration_ms),
             started_at = coalesce(c.started_at, (select app_now())), ended_at = coalesce(c.ended_at, (select app_now()))
        from d
        cross join lateral (
          select ctid as place, state as was from tool_call
           where run_id = d.run_id and step_number = d.step_number and call_index = d.call_index offset 0) o
       where c.ctid = o.place
      returning d.batch_id, d.project_id, d.state, o.was)
    select batch_id, project_id, ${ENDED_CALL_COUNTS}
      from ended group by batch_id, project_id
  `.execute(trx);
  return rows;
}

/** Ends the runs' present steps, whose calls all have results. */
export async function endAnsweredSteps(trx: Tx, runs: readonly RunToDecide[]): Promise<void> {
  await expectRows(
    'step',
    runs.length,
    sql`
    with d as materialized (
      select * from ${unnestRows(runs, {
        run_id: ['uuid', (run) => run.id],
        number: ['int', (run) => run.step_number],
        attempt: ['int', (run) => run.attempt],
      })})
    update step s set state = 'done', ended_at = (select app_now())
      from d
     where s.run_id = d.run_id and s.number = d.number and s.attempt = d.attempt and s.state = 'answered'
    `,
    trx,
  );
}

/** A run's move from the state as read to the next. */
export interface RunMoved {
  readonly run: RunToDecide;
  readonly move: StepDecision['run'];
  readonly last_seq: number;
}

/**
 * Moves runs, each from the state of its decision.
 * Throws: `stale`, also for a run that another transaction writes during the wait, which gives its row another ctid.
 */
export async function moveRuns(trx: Tx, moves: readonly RunMoved[]): Promise<void> {
  const rows = moves.map(({ run, move, last_seq }) => ({
    ...{ run, move, last_seq },
    next: move.state === 'ready' ? move : run,
    end: 'stop_reason' in move ? move : null,
  }));
  const trails = textSlices(moves.map(({ move }) => (move.state === 'ready' ? jsonOf(move.trail) : null)));
  await expectRows(
    'run',
    rows.length,
    sql`
    with d as materialized (
      select * from ${unnestRows(rows, {
        id: ['uuid', ({ run }) => run.id],
        was: ['word', ({ run }) => run.state],
        state: ['word', ({ move }) => move.state],
        last_seq: ['int', ({ last_seq }) => last_seq],
        step_number: ['int', ({ next }) => next.step_number],
        attempt: ['int', ({ next }) => next.attempt],
        failures: ['int', ({ next }) => next.failures],
        token_boost: ['int', ({ next }) => next.token_boost],
        trail_start: ['int', (_row, index) => trails.startOf(index)],
        trail_length: ['int', (_row, index) => trails.lengthOf(index)],
        result: ['text', ({ end }) => jsonOf(end?.result)],
        stop_reason: ['word', ({ end }) => end?.stop_reason ?? null],
        error: ['text', ({ end }) => jsonOf(end?.error)],
      })})
    update run t
       set state = d.state, step_number = d.step_number, attempt = d.attempt, failures = d.failures,
           token_boost = d.token_boost, last_seq = d.last_seq,
           trail = case when d.trail_start is null then t.trail
                        else convert_from(substr(${trails.bytes}::bytea, d.trail_start, d.trail_length), 'UTF8')::json end,
           result = d.result::json, stop_reason = d.stop_reason, error = d.error::json,
           ended_at = case when d.stop_reason is not null then (select app_now()) end,
           overdue_from = case when d.stop_reason is null then least(t.deadline_at, t.cancel_requested_at) end
      from d
      cross join lateral (select ctid as place from run where id = d.id and state = d.was offset 0) r
     where t.ctid = r.place
    `,
    trx,
  );
}

/** Serializes a value for a JSON column; null stays null. */
function jsonOf(value: unknown): string | null {
  return value === undefined || value === null ? null : storableJson(value);
}
