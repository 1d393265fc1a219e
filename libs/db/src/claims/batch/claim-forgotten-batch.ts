import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { IS_DUE } from '../../reads/due-conditions.ts';
import { LAST_HOLDER, leasedTo, type Claimant } from '../lease.ts';

/** A claimed batch whose rows are being removed. */
export interface ClaimedForgottenBatch {
  readonly id: string;
  readonly lease_epoch: number;
  readonly taken_over_from: string | null;
}

/**
 * Claims the forgotten batch that has been due longest; null without one. The caller ends with a portion that removes the
 * last rows, or a release.
 * Locks: the row, with skip locked. Index: `forgotten_batch_due`.
 */
export async function claimForgottenBatch(
  db: Database,
  claimant: Claimant,
): Promise<ClaimedForgottenBatch | null> {
  const { rows } = await sql<ClaimedForgottenBatch>`
    with due ${AS_FIRST} (
      select id, ${LAST_HOLDER} from forgotten_batch
       where ${IS_DUE} order by next_due_at, id limit 1 for update skip locked)
    update forgotten_batch b set ${leasedTo(claimant)} from due where b.id = due.id
    returning b.id, b.lease_epoch, due.holder as taken_over_from
  `.execute(db);
  return rows[0] ?? null;
}
