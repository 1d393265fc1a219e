import { sql } from 'kysely';
import type { Database, Tx } from '../connect.ts';
import { NOW } from '../fragments.ts';
import { isAuditDue } from '../reads/due-conditions.ts';
import type { Violation } from './audit-invariants.ts';

/** The findings of the last completed audit. */
export interface AuditReport {
  readonly finished_at: Date;
  readonly violations: readonly Violation[];
}

/**
 * Invariants whose breach means wrong spending: a step applied or in flight twice, or in flight for a run that is not; a provider
 * batch that differs from its submission; a wrong budget. A breach stops all sending.
 * Left out: I23 and I23c, because an answer above its reservation exceeds a cap once and stops its own batch or run.
 * I24, because an unbooked line is in the past. I10 and I13, because rows of a clock that was set back break them for ever.
 */
export const MONEY_INVARIANTS: ReadonlySet<string> = new Set([
  'I2',
  'I6',
  'I7',
  'I8',
  'I9',
  'I14',
  'I19',
  'I23b',
]);

/** Begins an audit unless the last began less than `intervalMs` ago or {@link isAuditDue} denies it. True if it began. */
export async function claimAudit(
  db: Database,
  projectId: string,
  id: string,
  intervalMs: number,
): Promise<boolean> {
  const { rows } = await sql`
    insert into audit_report (id, project_id)
    select ${id}::uuid, ${projectId}::uuid
     where ${isAuditDue(intervalMs)}
    returning 1
  `.execute(db);
  return rows.length === 1;
}

/** Stores an audit's findings and deletes reports older than a week. */
export async function commitAudit(trx: Tx, id: string, violations: readonly Violation[]): Promise<void> {
  await trx
    .updateTable('audit_report')
    .set({ finished_at: NOW, violations: JSON.stringify(violations) })
    .where('id', '=', id)
    .execute();
  await trx
    .deleteFrom('audit_report')
    .where('started_at', '<', sql<Date>`app_now() - interval '7 days'`)
    .execute();
}

/** Reads the last completed audit; null without one. */
export async function readLastAudit(db: Database): Promise<AuditReport | null> {
  const { rows } = await sql<AuditReport>`
    select finished_at, violations from audit_report where finished_at is not null order by started_at desc limit 1
  `.execute(db);
  return rows[0] ?? null;
}
