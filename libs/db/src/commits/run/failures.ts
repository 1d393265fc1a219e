import { errorTypeLabel } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import type { RunToDecide } from '../../reads/run/runs-to-decide.ts';
import { storableJson } from '../json-rows.ts';
import { unnestRows } from '../unnest-rows.ts';
import type { DecidedRun, RunMoved } from './decided-rows.ts';

interface Noted {
  readonly id: string;
  /** Null: the step has succeeded, or the run has ended. */
  readonly last_error: string | null;
  readonly delay_ms: number;
}

/**
 * Notes on runs whose attempt failed since when, with which error, and when the next attempt is due; clears it on failing
 * runs whose step has succeeded or which end. Writes nothing when no step failed.
 * Locks: the runs, which `moveRuns` has written before.
 */
export async function noteFailures(trx: Tx, moves: readonly RunMoved[]): Promise<void> {
  const rows = moves.flatMap(({ run, move }): Noted[] => {
    if (move.state === 'ready' && move.last_error !== undefined)
      return [{ id: run.id, last_error: storableJson(move.last_error), delay_ms: move.delay_ms }];
    return run.failing_for_ms === null || isTriedAgain(run, move)
      ? []
      : [{ id: run.id, last_error: null, delay_ms: 0 }];
  });
  if (rows.length === 0) return;
  await sql`
    with d as materialized (
      select * from ${unnestRows(rows, {
        id: ['uuid', ({ id }) => id],
        last_error: ['text', ({ last_error }) => last_error],
        delay_ms: ['int', ({ delay_ms }) => delay_ms],
      })})
    update run t
       set failing_since = case when d.last_error is not null then coalesce(t.failing_since, (select app_now())) end,
           last_error = d.last_error::json,
           next_attempt_at = case when d.last_error is not null
                                  then (select app_now()) + d.delay_ms * interval '1 millisecond' end
      from d
     where t.id = d.id
  `.execute(trx);
}

/** Returns whether a run has a failed step after its move that is tried again. */
export function isTriedAgain(run: RunToDecide, move: RunMoved['move']): boolean {
  if (move.state !== 'ready') return false;
  return (
    move.last_error !== undefined || (run.failing_for_ms !== null && move.step_number === run.step_number)
  );
}

/**
 * Counts failed attempts by error type. Writes nothing when none failed.
 * Locks: the counts in the order of their types, last in a commit.
 */
export async function countFailedLines(trx: Tx, decided: readonly DecidedRun[], slot: number): Promise<void> {
  const failed = decided.flatMap(({ run, decision: { step } }) => {
    const type = failedAs(step.state, step.error?.['type']);
    return type === null ? [] : [{ type, project_id: run.project_id }];
  });
  if (failed.length === 0) return;
  const counts = [...Map.groupBy(failed, ({ type }) => type)].map(([t, own]) => ({
    t,
    p: own[0]?.project_id,
    n: own.length,
  }));
  await sql`
    insert into failed_lines as f (error_type, slot, project_id, lines)
    select t, ${slot}::int, p, n from json_to_recordset(${JSON.stringify(counts)}::json) as d(t text, p uuid, n bigint)
     order by t
    on conflict (error_type, slot) do update set lines = f.lines + excluded.lines
  `.execute(trx);
}

/** Returns the label of a failed attempt; null if it did not fail. */
function failedAs(state: DecidedRun['decision']['step']['state'], type: unknown): string | null {
  switch (state) {
    case 'errored':
      return errorTypeLabel(type);
    case 'expired':
      return 'expired';
    case 'lost':
      return 'missing';
    default:
      return null;
  }
}
