import { sql, type Kysely } from 'kysely';

/** Under which labels a request shows its blocks: no revision keeps a label, and it is a part of the prompt. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- Beside block_ids; null for no blocks, and for steps that were sealed before this: those show the labels of now.
alter table step add column block_labels text[];
`,
    )
    .execute(db);
}
