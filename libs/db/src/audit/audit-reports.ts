import { sql } from 'kysely';
import type { Database, Tx } from '../connect.ts';
import { NOW } from '../fragments.ts';
import { isAuditDue } from '../reads/due-conditions.ts';
import type { Violation } from './audit-invariants.ts';
import type { AuditScope } from './scope.ts';

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

/** Days in which the slices of audits read all rows: a week, with a reserve. */
const SLICES_DAYS = 6;

/**
 * Reads the scope of the audit that begins now; null: all rows. It is all rows without an audit within the last week that read
 * its whole scope, and after a violation, until an audit of all rows finds none.
 * Changed batches are those since the begin of the last such audit. The slice begins where its slice ended, and holds the share
 * of all runs that matches the time since: in a week all rows are read.
 * Index: `audit_report_by_age`; reads all batches.
 */
export async function readAuditScope(db: Database): Promise<AuditScope | null> {
  const { rows } = await sql<{ since: Date | null; after: string | null; share: number }>`
    select l.covered_to as since, l.slice_to as after,
           least(1, extract(epoch from app_now() - l.covered_to) / (${SLICES_DAYS}::int * 86400))::float8 as share
      from (select covered_to, slice_to from audit_report where finished_at is not null order by started_at desc limit 1) l
  `.execute(db);
  const [last] = rows;
  if (last === undefined || last.since === null) return null;
  const { since, after, share } = last;
  return { since, slice: { after, to: await readSliceEnd(db, after, share) } };
}

/** Returns the id of the batch whose runs complete the share; null when no batch follows. */
async function readSliceEnd(db: Database, after: string | null, share: number): Promise<string | null> {
  const { rows } = await sql<{ id: string }>`
    with counted as (
      select id, sum(accepted + 1) over (order by id) as upto, sum(accepted + 1) over () as total from batch),
    behind as (select coalesce(max(upto), 0) as upto from counted where id <= ${after}::uuid)
    select c.id from counted c cross join behind b
     where c.id > coalesce(${after}::uuid, '00000000-0000-0000-0000-000000000000') and c.upto - b.upto >= c.total * ${share}::float8
     order by c.id limit 1
  `.execute(db);
  return rows[0]?.id ?? null;
}

/**
 * Stores an audit's findings and deletes reports older than a week. `scope`: the rows that were read; undefined: the audit
 * is not over.
 */
export async function commitAudit(
  trx: Tx,
  id: string,
  violations: readonly Violation[],
  scope?: AuditScope | null,
): Promise<void> {
  const isClean = scope !== undefined && violations.length === 0;
  await trx
    .updateTable('audit_report')
    .set((eb) => ({
      finished_at: NOW,
      violations: JSON.stringify(violations),
      ...(isClean ? { covered_to: eb.ref('started_at'), slice_to: scope?.slice.to ?? null } : {}),
    }))
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
