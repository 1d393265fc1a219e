import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { USAGE_KEY, USAGE_SUMS, usageOf } from '../../reads/usage/usage-rows.ts';

const NAMES = sql.join(USAGE_SUMS.map((name) => sql.ref(name)));
const ADDED = sql.join(
  USAGE_SUMS.map((name) => sql`${sql.ref(name)} = d.${sql.ref(name)} + excluded.${sql.ref(name)}`),
);

/**
 * Adds the use of a batch that ends in this transaction to its days. It reads each step once; until then, reads sum the steps
 * themselves.
 * Locks: rows of `usage_day`, in the order of their keys. Index: the unique (batch, ordinal), primary keys.
 */
export async function bookUsage(trx: Tx, batchId: string): Promise<void> {
  await sql`
    insert into usage_day as d (${USAGE_KEY}, ${NAMES})
    select ${USAGE_KEY}, ${NAMES} from (${usageOf(sql`b.id = ${batchId}::uuid`)}) ended order by ${USAGE_KEY}
    on conflict (${USAGE_KEY}) do update set ${ADDED}
  `.execute(trx);
}
