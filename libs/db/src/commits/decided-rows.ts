import type { StepDecision, ToolKind, ToolsDecision } from '@nightshift/agent-core';
import { toStorable, toStorableText } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../connect.ts';
import type { LockedRun } from '../locks/lock-runs.ts';
import { plainColumn, textColumn, textSlices } from './columns.ts';
import { storableJson } from './json-rows.ts';

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

/** Writes a statement's rows and insists on their number: fewer means that a guard refused one. */
export async function expectRows(
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

/** Writes what came of decided steps, each as it was decided about and no other. */
export async function writeSteps(trx: Tx, decided: readonly DecidedRun[]): Promise<void> {
  const keys = decided.map(({ decision }) => decision.key);
  const steps = decided.map(({ decision }) => decision.step);
  const usages = steps.map((step) => step.usage);
  await expectRows(
    'step',
    decided.length,
    sql`
    with d as materialized (
      select * from unnest(
        ${plainColumn(
          'uuid',
          keys.map((key) => key.run_id),
        )},
        ${plainColumn(
          'int',
          keys.map((key) => key.number),
        )},
        ${plainColumn(
          'int',
          keys.map((key) => key.attempt),
        )},
        ${plainColumn(
          'text',
          steps.map((step) => step.from),
        )},
        ${plainColumn(
          'text',
          decided.map(({ decision, settled }) => (settled === null ? decision.step.state : 'done')),
        )},
        ${plainColumn(
          'boolean',
          steps.map((step) => step.applies),
        )},
        ${textColumn(steps.map((step) => storable(step.stop_reason)))},
        ${textColumn(steps.map((step) => storable(step.model)))},
        ${textColumn(steps.map((step) => storable(step.message_id)))},
        ${textColumn(steps.map((step) => jsonOf(step.error)))},
        ${plainColumn(
          'int',
          usages.map((usage) => usage.input_tokens),
        )},
        ${plainColumn(
          'int',
          usages.map((usage) => usage.output_tokens),
        )},
        ${plainColumn(
          'int',
          usages.map((usage) => usage.cache_write_5m_tokens),
        )},
        ${plainColumn(
          'int',
          usages.map((usage) => usage.cache_write_1h_tokens),
        )},
        ${plainColumn(
          'int',
          usages.map((usage) => usage.cache_read_tokens),
        )},
        ${plainColumn(
          'bigint',
          steps.map((step) => step.cost_nanousd),
        )}
      ) as d(run_id, number, attempt, was, state, applies, stop_reason, model, message_id, error,
             input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, cost_nanousd))
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

/** A message of a step, as its row is written. */
export interface MessageRow {
  readonly run: LockedRun;
  readonly step_number: number;
  readonly seq: number;
  readonly role: string;
  readonly content_json: string;
  readonly shown: boolean;
}

/** The row of a decided message. */
export function messageRow(
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

/** Writes messages, their contents verbatim. */
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
      from unnest(
        ${plainColumn(
          'uuid',
          rows.map(({ run }) => run.project_id),
        )},
        ${plainColumn(
          'uuid',
          rows.map(({ run }) => run.conversation_id),
        )},
        ${plainColumn(
          'int',
          rows.map((row) => row.seq),
        )},
        ${plainColumn(
          'uuid',
          rows.map(({ run }) => run.id),
        )},
        ${plainColumn(
          'int',
          rows.map((row) => row.step_number),
        )},
        ${plainColumn(
          'text',
          rows.map((row) => row.role),
        )},
        ${contents.starts},
        ${contents.lengths},
        ${plainColumn(
          'boolean',
          rows.map((row) => row.shown),
        )}
      ) as d(project_id, conversation_id, seq, run_id, step_number, role, start, length, shown)
    `,
    trx,
  );
}

/** Writes the calls of decided answers, those that are over with their time. */
export async function writeToolCalls(trx: Tx, decided: readonly DecidedRun[]): Promise<void> {
  const rows = decided.flatMap(({ run, decision, calls }) =>
    calls.map((call) => ({ run, number: decision.key.number, call })),
  );
  if (rows.length === 0) return;
  const calls = rows.map((row) => row.call);
  await sql`
    insert into tool_call (project_id, run_id, step_number, call_index, tool_use_id, tool_name, kind, state, held_result,
                           awaits, started_at, ended_at, duration_ms)
    select d.project_id, d.run_id, d.number, d.call_index, d.tool_use_id, d.tool_name, d.kind, d.state, d.held_result, d.awaits,
           case when d.state <> 'pending' then (select app_now()) end, case when d.state <> 'pending' then (select app_now()) end,
           case when d.state <> 'pending' then 0 end
      from unnest(
        ${plainColumn(
          'uuid',
          rows.map(({ run }) => run.project_id),
        )},
        ${plainColumn(
          'uuid',
          rows.map(({ run }) => run.id),
        )},
        ${plainColumn(
          'int',
          rows.map((row) => row.number),
        )},
        ${plainColumn(
          'int',
          calls.map((call) => call.call_index),
        )},
        ${textColumn(calls.map((call) => toStorableText(call.tool_use_id)))},
        ${textColumn(calls.map((call) => toStorableText(call.tool_name)))},
        ${plainColumn(
          'text',
          calls.map((call) => call.kind),
        )},
        ${plainColumn(
          'text',
          calls.map((call) => call.state),
        )},
        ${textColumn(calls.map((call) => storable(call.held_result)))},
        ${plainColumn(
          'text',
          calls.map((call) => call.awaits ?? null),
        )}
      ) as d(project_id, run_id, number, call_index, tool_use_id, tool_name, kind, state, held_result, awaits)
  `.execute(trx);
}

/** A run that goes from the state it was locked in to the next. */
export interface RunMoved {
  readonly run: LockedRun;
  readonly move: StepDecision['run'];
  readonly last_seq: number;
}

/** Moves locked runs on, each from the state it was decided about. */
export async function moveRuns(trx: Tx, moves: readonly RunMoved[]): Promise<void> {
  const next = moves.map(({ run, move }) => (move.state === 'ready' ? move : { ...run, trail: undefined }));
  const trails = textSlices(next.map(({ trail }) => jsonOf(trail)));
  await expectRows(
    'run',
    moves.length,
    sql`
    with d as materialized (
      select * from unnest(
        ${plainColumn(
          'uuid',
          moves.map(({ run }) => run.id),
        )},
        ${plainColumn(
          'text',
          moves.map(({ run }) => run.state),
        )},
        ${plainColumn(
          'text',
          moves.map(({ move }) => move.state),
        )},
        ${plainColumn(
          'int',
          moves.map(({ last_seq }) => last_seq),
        )},
        ${plainColumn(
          'int',
          next.map((run) => run.step_number),
        )},
        ${plainColumn(
          'int',
          next.map((run) => run.attempt),
        )},
        ${plainColumn(
          'int',
          next.map((run) => run.failures),
        )},
        ${plainColumn(
          'int',
          next.map((run) => run.token_boost),
        )},
        ${trails.starts},
        ${trails.lengths},
        ${textColumn(moves.map(({ move }) => ('stop_reason' in move ? jsonOf(move.result) : null)))},
        ${plainColumn(
          'text',
          moves.map(({ move }) => ('stop_reason' in move ? move.stop_reason : null)),
        )},
        ${textColumn(moves.map(({ move }) => ('error' in move ? jsonOf(move.error) : null)))}
      ) as d(id, was, state, last_seq, step_number, attempt, failures, token_boost, trail_start, trail_length, result,
             stop_reason, error))
    update run t
       set state = d.state, step_number = d.step_number, attempt = d.attempt, failures = d.failures,
           token_boost = d.token_boost, last_seq = d.last_seq,
           trail = case when d.trail_start is null then t.trail
                        else convert_from(substr(${trails.bytes}::bytea, d.trail_start, d.trail_length), 'UTF8')::json end,
           result = d.result::json, stop_reason = d.stop_reason, error = d.error::json,
           ended_at = case when d.stop_reason is not null then (select app_now()) end
      from d
     where t.id = d.id and t.state = d.was
    `,
    trx,
  );
}

function storable(text: string | null): string | null {
  return text === null ? null : toStorableText(text);
}

/** JSON text of a value for a column; null for none. */
function jsonOf(value: unknown): string | null {
  return value === undefined || value === null ? null : storableJson(value);
}
