import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { nextLines, type LineLimits, type StagedLineRow } from '../../reads/upload/staged-lines.ts';

/**
 * Deletes the next staged lines of a batch and returns them in order. The caller holds the batch and makes their runs.
 * Index: primary key.
 */
export async function takeStagedLines(
  trx: Tx,
  batchId: string,
  from: number,
  limits: LineLimits,
): Promise<readonly StagedLineRow[]> {
  const { rows } = await sql<StagedLineRow>`
    delete from staged_line l
     using (${nextLines(batchId, from, limits)}) n
     where l.batch_id = ${batchId}::uuid and l.ordinal = n.ordinal
    returning l.ordinal, l.custom_id, l.run
  `.execute(trx);
  return rows.toSorted((a, b) => a.ordinal - b.ordinal);
}
