import { sql, type Kysely } from 'kysely';

/** Deleted agents whose open runs still need their blocks are marked, so that the sweep finds when they need them no more. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
alter table agent add column keeps_blocks boolean not null default false;
update agent a set keeps_blocks = true
 where a.deleted_at is not null and exists (select from agent_block k where k.agent_id = a.id);
create index agent_keeping_blocks on agent (id) where keeps_blocks;
`,
    )
    .execute(db);
}
