import { sql, type Kysely } from 'kysely';

/** Whoever asks how the open batches stand finds them by an index, however many have ended. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
create index batch_open on batch (state) where completed_at is null;
`,
    )
    .execute(db);
}
