import { sql } from 'kysely';
import type { Database, Tx } from '../connect.ts';
import { NOW } from '../fragments.ts';
import { isAuditDue } from '../reads/due-conditions.ts';
import type { Violation } from './audit-invariants.ts';

/** What the last finished audit found. */
export interface AuditReport {
  readonly finished_at: Date;
  readonly violations: readonly Violation[];
}

/**
 * Invariants whose breach means that money is being spent wrongly: a step applied or under way twice, or under way for a
 * run that is not, a provider batch that is not what was sent, a budget that does not hold what it says.
 * While one is broken nothing new is sent. Not I23 and I23c: an answer that came to more than was reserved for it exceeds a cap
 * once, and nothing more of its batch or run is sent for it. Not I24: a line that was not booked is over. Nor I10 and I13, which compare times: rows of a clock that was set
 * back break them for ever.
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

/** Begins an audit unless one began less than `intervalMs` ago, or than {@link isAuditDue} asks for; false then. */
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

/** Keeps what an audit found, and forgets reports older than a week. */
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

/** The last finished audit; null when there was none. */
export async function readLastAudit(db: Database): Promise<AuditReport | null> {
  const { rows } = await sql<AuditReport>`
    select finished_at, violations from audit_report where finished_at is not null order by started_at desc limit 1
  `.execute(db);
  return rows[0] ?? null;
}
