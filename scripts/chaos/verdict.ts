import { existsSync, readFileSync } from 'node:fs';
import type pg from 'pg';
import type { LedgerSnapshot } from '../../apps/simulator/src/index.ts';
import { callKey } from '../../apps/worker/src/flow-parts/calls/call.ts';
import { auditInvariants, type Database } from '../../libs/db/src/index.ts';
import type { StrikeCounts } from './killer.ts';

/** The result of a chaos run: our books and the provider's. */
export interface Verdict {
  readonly runs: number;
  readonly steps: number;
  /** Runs that did not complete. */
  readonly lost: number;
  /** Step numbers with more than one applied attempt, and repeated effects of the `once` tool. */
  readonly duplicated: number;
  readonly effects: number;
  /** Succeeded calls of the `once` tool without an effect. */
  readonly effects_missing: number;
  /** Steps that the provider billed more than once, booked orphans left out. */
  readonly paid_twice: number;
  readonly orphans_booked: number;
  readonly orphans_adopted: number;
  readonly violations: readonly string[];
  /** Deadlocks in the server's log. */
  readonly deadlocks: number;
}

/** Compares the database with the effects of the tools and the provider's bills. */
export async function judge(
  db: Database,
  pool: pg.Pool,
  sources: { readonly controlUrl: string; readonly effectsFile: string; readonly postgresLog: string },
): Promise<Verdict> {
  const one = async <T extends Record<string, unknown>>(text: string): Promise<T> => {
    const { rows } = await pool.query<T>(text);
    return rows[0] as T;
  };
  // Autovacuum may not have analysed the new rows yet.
  await pool.query('analyze');
  const runs = await one<{ total: number; well: number }>(
    `select count(*)::int as total, count(*) filter (where state = 'completed' and stop_reason = 'end_turn')::int as well from run`,
  );
  const steps = await one<{ applied: number; twice: number }>(
    `select count(*)::int as applied, (count(*) - count(distinct (run_id, number)))::int as twice from step where applied_at is not null`,
  );
  const orphans = await one<{ booked: number; adopted: number }>(
    `select (select count(*)::int from provider_batch where state = 'orphan_paid') as booked,
            (select count(*)::int from doubted_submission where outcome = 'adopted') as adopted`,
  );
  const { rows: booked } = await pool.query<{ provider_id: string }>(
    `select provider_id from provider_batch where state = 'orphan_paid'`,
  );
  const orphanIds = new Set(booked.map((row) => row.provider_id));
  const ask = async <T>(path: string): Promise<T> =>
    (await (await fetch(`${sources.controlUrl}${path}`)).json()) as T;
  const ledger = await ask<LedgerSnapshot>('/ledger');
  // Oldest first. A late orphan may have been billed before or after the batch that replaced it.
  const { batches } = await ask<{ readonly batches: readonly { readonly id: string }[] }>('/batches');
  const paidTwice = ledger.repeats.filter(({ by, first_batch_seq, again }) => {
    const billed = [batches[first_batch_seq - 1]?.id, ...again.map(({ batch_id }) => batch_id)];
    return by === 'logical_key' && billed.filter((id) => id == null || !orphanIds.has(id)).length > 1;
  });
  const { rows: charged } = await pool.query<{ run_id: string; step_number: number; call_index: number }>(
    `select run_id, step_number, call_index from tool_call where tool_name = 'charge_once' and state = 'succeeded'`,
  );
  const { keys, repeated } = readEffects(sources.effectsFile);
  const violations = await auditInvariants(db);
  const deadlocks = countDeadlocks(sources.postgresLog);
  return {
    runs: runs.total,
    steps: steps.applied,
    lost: runs.total - runs.well,
    duplicated: steps.twice + repeated,
    effects: keys.size,
    effects_missing: charged.filter(
      (call) => !keys.has(callKey(call.run_id, call.step_number, call.call_index)),
    ).length,
    paid_twice: paidTwice.length,
    orphans_booked: orphans.booked,
    orphans_adopted: orphans.adopted,
    violations: violations.map((violation) => violation.name),
    deadlocks,
  };
}

/** Maximum milliseconds from a kill to the takeover of the work. */
const RECOVERY_MAX_MS = 15_000;

/** Tells whether workers were killed and every check holds. */
export function hasHeld(verdict: Verdict, strikes: StrikeCounts): boolean {
  return (
    verdict.lost === 0 &&
    verdict.duplicated === 0 &&
    verdict.effects > 0 &&
    verdict.effects_missing === 0 &&
    verdict.paid_twice === 0 &&
    verdict.deadlocks === 0 &&
    verdict.violations.length === 0 &&
    strikes.kills > 0 &&
    strikes.unexpected_ends.length === 0 &&
    strikes.waiting.size === 0 &&
    Math.max(0, ...strikes.recoveries_ms) <= RECOVERY_MAX_MS
  );
}

/** Reads the journal of the `once` tool: the keys of its calls, and the number of repeated effects. */
function readEffects(file: string): { readonly keys: ReadonlySet<string>; readonly repeated: number } {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  const charges = lines.flatMap((line) => line.split(' ')[0] || []);
  const keys = new Set(charges);
  return { keys, repeated: charges.length - keys.size };
}

function countDeadlocks(logFile: string): number {
  return readFileSync(logFile, 'utf8').split('deadlock detected').length - 1;
}
