import { sql, type RawBuilder } from 'kysely';
import { readNow, type Database, type Tx } from '../connect.ts';
import { BUDGET_INVARIANTS } from './budget-invariants.ts';
import { CURSOR_INVARIANTS } from './cursor-invariants.ts';
import { END_INVARIANTS } from './end-invariants.ts';
import type { Invariant, Part } from './invariant.ts';
import { narrowTo, type AuditScope } from './scope.ts';
import { livenessInvariant, OTHER_INVARIANTS } from './other-invariants.ts';
import { PILOT_INVARIANTS } from './pilot-invariants.ts';
import { PROVIDER_BATCH_INVARIANTS } from './provider-batch-invariants.ts';
import { RUN_INVARIANTS } from './run-invariants.ts';
import { STEP_INVARIANTS } from './step-invariants.ts';

/** A row that breaks an invariant. */
export interface Violation {
  readonly id: string;
  /** The broken promise. */
  readonly name: string;
  /** The row's keys and the wrong values. */
  readonly row: Readonly<Record<string, unknown>>;
}

export interface AuditOptions {
  /** Time that a row may be due without a holder. Unit: ms. Default: 15 minutes. */
  readonly stalledAfterMs?: number;
  /** Selects invariants by id. Default: all. */
  readonly among?: (id: string) => boolean;
  /** Default: all rows. */
  readonly scope?: AuditScope | null;
}

const STALLED_AFTER_MS = 15 * 60_000;
/** Maximum rows reported per invariant. */
const ROWS_MAX = 20;

/** Returns every invariant in audit order. `now` is the snapshot's time. Default: the time of each statement. */
export function invariants(options: AuditOptions = {}, now?: RawBuilder<Date>): readonly Invariant[] {
  return [
    ...RUN_INVARIANTS,
    ...STEP_INVARIANTS,
    ...PROVIDER_BATCH_INVARIANTS,
    ...BUDGET_INVARIANTS,
    ...PILOT_INVARIANTS,
    ...END_INVARIANTS,
    ...CURSOR_INVARIANTS,
    ...OTHER_INVARIANTS,
    livenessInvariant(options.stalledAfterMs ?? STALLED_AFTER_MS, now),
  ];
}

/**
 * Checks the database, or the rows of a scope, in one snapshot and returns the violations, at most 20 rows per invariant.
 * It takes no row locks, writes nothing and may run beside workers; without a scope it reads every table several times.
 * It cannot detect a double payment: only the provider's own list shows it.
 */
export async function auditInvariants(
  db: Database,
  options: AuditOptions = {},
): Promise<readonly Violation[]> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute((trx) => auditIn(trx, options));
}

/** As {@link auditInvariants}, in the caller's snapshot. */
export async function auditIn(trx: Tx, options: AuditOptions = {}): Promise<readonly Violation[]> {
  const violations: Violation[] = [];
  // The first statement takes the snapshot; the clock moves on during the audit.
  const now = sql<Date>`${await readNow(trx)}::timestamptz`;
  const narrow = options.scope == null ? null : await narrowTo(trx, options.scope);
  for (const invariant of invariants(options, now)) {
    const { id, name } = invariant;
    if (options.among?.(id) === false) continue;
    for (const part of partsOf(invariant, narrow !== null)) {
      const broken = narrow === null ? part.sql : await narrow(part);
      if (broken === null) continue;
      const { rows } = await sql<
        Record<string, unknown>
      >`select * from (${broken}) as broken limit ${ROWS_MAX}`.execute(trx);
      violations.push(...rows.map((row) => ({ id, name, row })));
    }
  }
  return violations;
}

/** Returns the statements that check an invariant: apart for an audit of a scope, else together. */
function partsOf({ parts, reads, sql: whole }: Invariant, isScoped: boolean): readonly Part[] {
  return isScoped && parts !== undefined ? parts : [{ reads: reads ?? 'work', sql: whole }];
}
