import { sql } from 'kysely';
import { fenced, type Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { USAGE_KEY, USAGE_SUMS, usageOf } from '../../reads/usage/usage-rows.ts';

/** Runs whose use is booked in one transaction. */
export const RUNS_BOOKED_MAX = 5_000;

const NAMES = sql.join(USAGE_SUMS.map((name) => sql.ref(name)));
const ADDED = sql.join(
  USAGE_SUMS.map((name) => sql`${sql.ref(name)} = d.${sql.ref(name)} + excluded.${sql.ref(name)}`),
);

/**
 * Adds the use of a batch to its days, as far as it is not booked: up to the run before ordinal `to`; null: all. It reads each
 * step once; until then, reads sum the steps themselves. The caller has locked the batch, whose runs have ended.
 * Locks: rows of `usage_day`, in the order of their keys. Index: the unique (batch, ordinal), primary keys.
 */
export async function bookUsage(trx: Tx, batchId: string, to: number | null): Promise<void> {
  const runs = to === null ? sql`true` : sql`r.ordinal < ${to}::int`;
  await sql`
    insert into usage_day as d (${USAGE_KEY}, ${NAMES})
    select ${USAGE_KEY}, ${NAMES} from (${usageOf(sql`b.id = ${batchId}::uuid`, runs)}) ended order by ${USAGE_KEY}
    on conflict (${USAGE_KEY}) do update set ${ADDED}
  `.execute(trx);
}

/**
 * Books the use of the runs with the next `limit` ordinals of a batch of `total` ended runs, and returns true. Returns false if at
 * most `limit` are left: the end of the batch books them. So no transaction reads all steps of a big batch.
 * The caller has locked the batch.
 * Throws: `fenced`. Locks: rows of `usage_day`. Index: the unique (batch, ordinal), primary keys.
 */
export async function commitUsagePortion(
  trx: Tx,
  lease: Lease,
  total: number,
  limit: number,
): Promise<boolean> {
  if (total <= limit) return false;
  const { rows } = await sql<{ to: number }>`
    select usage_booked + ${limit}::int as to from batch b
     where id = ${lease.id}::uuid and usage_booked + ${limit}::int <= (select max(ordinal) from run where batch_id = b.id)
  `.execute(trx);
  const to = rows[0]?.to;
  if (to === undefined) return false;
  await bookUsage(trx, lease.id, to);
  const { numAffectedRows } = await sql`
    update batch set usage_booked = ${to} where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch}
  `.execute(trx);
  if (numAffectedRows !== 1n) throw fenced(lease);
  return true;
}
