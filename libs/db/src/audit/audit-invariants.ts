import { sql, type RawBuilder } from 'kysely';
import { readNow, type Database } from '../connect.ts';
import { BUDGET_INVARIANTS } from './budget-invariants.ts';
import type { Invariant } from './invariant.ts';
import { livenessInvariant, OTHER_INVARIANTS } from './other-invariants.ts';
import { PROVIDER_BATCH_INVARIANTS } from './provider-batch-invariants.ts';
import { RUN_INVARIANTS } from './run-invariants.ts';
import { STEP_INVARIANTS } from './step-invariants.ts';

/** A row that breaks an invariant. */
export interface Violation {
  readonly id: string;
  /** The promise that is broken. */
  readonly name: string;
  /** What names the row, and what is wrong about it. */
  readonly row: Readonly<Record<string, unknown>>;
}

export interface AuditOptions {
  /** Milliseconds that a row may be due without a holder; default 15 minutes. */
  readonly stalledAfterMs?: number;
  /** Which invariants, by id; default all. */
  readonly among?: (id: string) => boolean;
}

const STALLED_AFTER_MS = 15 * 60_000;
/** Rows reported of one invariant: where there are more, the first say enough. */
const ROWS_MAX = 20;

/** Every invariant, in the order in which it is looked at. `now` is the time of the snapshot; default: of each look. */
export function invariants(options: AuditOptions = {}, now?: RawBuilder<Date>): readonly Invariant[] {
  return [
    ...RUN_INVARIANTS,
    ...STEP_INVARIANTS,
    ...PROVIDER_BATCH_INVARIANTS,
    ...BUDGET_INVARIANTS,
    ...OTHER_INVARIANTS,
    livenessInvariant(options.stalledAfterMs ?? STALLED_AFTER_MS, now),
  ];
}

/**
 * Looks at the whole database in one snapshot, locks nothing and changes nothing, and returns what must not be: at most
 * 20 rows of each invariant, none when the house is in order. It may run beside workers; on a large database it reads
 * every table several times.
 *
 * What it cannot see is whether the provider was paid twice for one thing: only the provider's own list tells.
 */
export async function auditInvariants(
  db: Database,
  options: AuditOptions = {},
): Promise<readonly Violation[]> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (trx) => {
      const violations: Violation[] = [];
      // With the snapshot, which the first statement takes: the clock goes on while it is looked at.
      const now = sql<Date>`${await readNow(trx)}::timestamptz`;
      for (const { id, name, sql: broken } of invariants(options, now)) {
        if (options.among?.(id) === false) continue;
        const { rows } = await sql<
          Record<string, unknown>
        >`select * from (${broken}) as broken limit ${ROWS_MAX}`.execute(trx);
        violations.push(...rows.map((row) => ({ id, name, row })));
      }
      return violations;
    });
}
