import { sql, type Kysely } from 'kysely';

/** Whoever looks for batches that are open and due at no time finds them by an index. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
create index batch_not_due on batch (id) where next_due_at is null and state in ('running', 'paused', 'cancelling');
`,
    )
    .execute(db);
}
