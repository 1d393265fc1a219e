import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import type { LeasedTable } from '../../tables.ts';

const NO_LEASES: Readonly<Record<LeasedTable, number>> = {
  batch: 0,
  provider_batch: 0,
  run_chunk: 0,
  credential: 0,
  forgotten_batch: 0,
};

/** Leases of one owner, by the table of the leased rows. */
export type LeaseCounts = Readonly<Record<LeasedTable, number>>;

/** Tables with ended rows: only due rows, now or later, can be held. */
const WITH_ENDED_ROWS: ReadonlySet<LeasedTable> = new Set(['batch', 'provider_batch', 'forgotten_batch']);

/**
 * Counts the leases in force of each of the owners.
 * Index: `batch_due`, `provider_batch_due`; the other tables are small.
 */
export async function readLeaseCounts(
  db: Database,
  owners: readonly string[],
): Promise<ReadonlyMap<string, LeaseCounts>> {
  const counts = (Object.keys(NO_LEASES) as LeasedTable[]).map(
    (table) => sql`
      select lease_owner as owner, ${table}::text as leased, count(*)::int as count from ${sql.table(table)}
       where lease_owner = any(${owners}::text[]) and lease_until > app_now()
             ${WITH_ENDED_ROWS.has(table) ? sql`and next_due_at is not null` : sql``}
       group by lease_owner`,
  );
  const { rows } = await sql<{
    readonly owner: string;
    readonly leased: LeasedTable;
    readonly count: number;
  }>`${sql.join(counts, sql` union all `)}`.execute(db);
  const byOwner = new Map<string, LeaseCounts>(owners.map((owner) => [owner, NO_LEASES]));
  for (const { owner, leased, count } of rows)
    byOwner.set(owner, { ...(byOwner.get(owner) ?? NO_LEASES), [leased]: count });
  return byOwner;
}
