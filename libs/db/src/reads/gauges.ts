import { sql } from 'kysely';
import type { Database } from '../connect.ts';
import { pauseCauseOf, type PauseCause } from './provider-batch/paused-credentials.ts';

/** Gauges of the installation that cost only a few index look-ups. */
export interface Gauges {
  readonly batches: readonly { readonly state: string; readonly count: number }[];
  readonly provider_batches: readonly { readonly state: string; readonly count: number }[];
  /** Runs that wait for their next request. */
  readonly ready_runs: number;
  readonly acting_runs: number;
  /** Wait of the oldest due row; 0 without one. Unit: s. */
  readonly oldest_due_seconds: number;
  /** The causes of the present pauses, one per paused credential. */
  readonly pauses: readonly PauseCause[];
  /** Answers above their reservation, and answers cut off at a limit under a cap, over all batches. */
  readonly overshoots: number;
  readonly cut_offs: number;
  /** Estimate errors of batches completed in the last 30 days: their number, and quantiles as [share, error]. */
  readonly estimates: number;
  readonly estimate_errors: readonly (readonly [number, number])[];
}

/** Quantiles of the estimate errors, as in the statement. */
const QUANTILES = [0.1, 0.5, 0.9];

/**
 * Reads the gauges, without ended batches and provider batches, of which there may be millions.
 * Index: `batch_open` and the indexes of due rows.
 */
export async function readGauges(db: Database): Promise<Gauges> {
  const { rows } = await sql<
    Omit<Gauges, 'pauses' | 'estimate_errors'> & {
      readonly pause_reasons: readonly string[];
      readonly errors: readonly number[] | null;
    }
  >`
    select coalesce((select json_agg(b) from (
             select state, count(*)::int as count from batch where completed_at is null group by state) b), '[]') as batches,
           coalesce((select json_agg(p) from (
             select state, count(*)::int as count from provider_batch where next_due_at is not null group by state) p), '[]') as provider_batches,
           coalesce((select sum(cardinality(run_ids)) from run_chunk where kind = 'ready'), 0)::int as ready_runs,
           coalesce((select sum(cardinality(run_ids)) from run_chunk where kind = 'tools'), 0)::int as acting_runs,
           greatest(0, coalesce(extract(epoch from app_now() - (select min(due) from (
             select min(next_due_at) as due from run_chunk where lease_until < app_now()
             union all select min(next_due_at) from provider_batch where next_due_at is not null and lease_until < app_now()
             union all select min(next_due_at) from batch where lease_until < app_now()) d)), 0))::float8 as oldest_due_seconds,
           array(select coalesce(pause_reason, '') from credential where paused_until > app_now()) as pause_reasons,
           c.overshoots, c.cut_offs, e.estimates, e.errors
      from (select coalesce(sum(overshoots), 0)::int as overshoots, coalesce(sum(cut_offs), 0)::int as cut_offs
              from batch_budget where overshoots > 0 or cut_offs > 0) c,
           (select count(*)::int as estimates,
                   to_json(percentile_cont(array[0.1, 0.5, 0.9]) within group (order by estimate_error)) as errors
              from batch where estimate_error is not null and completed_at > app_now() - interval '30 days') e
  `.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error('The database returned no row for the gauges.');
  const { pause_reasons, errors, ...gauges } = row;
  const estimate_errors = (errors ?? []).map((error, place) => [QUANTILES[place] ?? 0, error] as const);
  return { ...gauges, pauses: pause_reasons.map(pauseCauseOf), estimate_errors };
}
