import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { isOldUpload } from '../../reads/due-conditions.ts';

/** Most lines of a statement, so that it takes far less than a lease. */
const LINES_PER_STATEMENT = 20_000;

/**
 * Deletes some staged lines of a batch or an upload and returns whether others may be left. Index: primary key.
 */
export async function deleteStagedLines(db: Database, batchId: string): Promise<boolean> {
  const { numAffectedRows = 0n } = await sql`
    delete from staged_line l
     using (select min(ordinal) as first from staged_line where batch_id = ${batchId}::uuid) f
     where l.batch_id = ${batchId}::uuid and l.ordinal >= f.first and l.ordinal < f.first + ${LINES_PER_STATEMENT}
  `.execute(db);
  return numAffectedRows > 0n;
}

/** Ends an upload that was refused or cut, with its lines: they go first, so that a crash leaves them to {@link dropOldUploads}. */
export async function dropUpload(db: Database, batchId: string): Promise<void> {
  while (await deleteStagedLines(db, batchId));
  await db.deleteFrom('upload').where('batch_id', '=', batchId).execute();
}

/**
 * Ends uploads that began more than `hours` ago: their API has died. Returns their number. Each statement commits alone.
 * Index: `upload_by_age`.
 */
export async function dropOldUploads(db: Database, hours: number): Promise<number> {
  const old = await db
    .selectFrom('upload')
    .select('batch_id')
    .where(isOldUpload(hours))
    .orderBy('started_at')
    .limit(10)
    .execute();
  for (const { batch_id } of old) await dropUpload(db, batch_id);
  return old.length;
}
