import { sql, type RawBuilder } from 'kysely';
import type { Database, Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { isOldUpload } from '../../reads/due-conditions.ts';

/** Most lines of a statement, so that it takes far less than a lease. */
const LINES_PER_STATEMENT = 20_000;

/** Deletes some staged lines of a batch and returns whether others may be left. Index: primary key. */
export async function deleteStagedLines(trx: Tx, batchId: string): Promise<boolean> {
  return deleteLines(trx, sql`${batchId}::uuid`);
}

/**
 * Ends an upload that was refused or cut, with its lines: they go first, so that a crash leaves them to {@link dropOldUploads}.
 * Keeps the lines once their batch is stored, also by a commit whose answer was lost. Locks: the upload.
 */
export async function dropUpload(db: Database, batchId: string): Promise<void> {
  const upload = sql`(select batch_id from upload where batch_id = ${batchId}::uuid for update)`;
  while (await deleteLines(db, upload));
  await db.deleteFrom('upload').where('batch_id', '=', batchId).execute();
}

async function deleteLines(db: Database, batchId: RawBuilder<unknown>): Promise<boolean> {
  const { numAffectedRows = 0n } = await sql`
    with owner ${AS_FIRST} (select ${batchId} as batch_id)
    delete from staged_line l
     using (select min(ordinal) as first from staged_line where batch_id = (select batch_id from owner)) f
     where l.batch_id = (select batch_id from owner)
       and l.ordinal >= f.first and l.ordinal < f.first + ${LINES_PER_STATEMENT}
  `.execute(db);
  return numAffectedRows > 0n;
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
