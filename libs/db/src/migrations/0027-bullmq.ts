import { sql, type Kysely } from 'kysely';

/**
 * Drops the tables of the former queue on Postgres. They stay where another program has queues in them, or where another
 * role owns them.
 */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
do $$
declare
  is_ours boolean;
begin
  if to_regclass('bullmq.meta') is null or to_regclass('bullmq.job') is null or not exists (
    select from pg_namespace where nspname = 'bullmq' and pg_has_role(nspowner, 'usage')
  ) then
    return;
  end if;
  select coalesce(bool_and(queue in ('nightshift-control', 'nightshift-work')), false) into is_ours
    from (select queue from bullmq.meta union select queue from bullmq.job) queues;
  if is_ours then
    drop schema bullmq cascade;
  end if;
end $$;
`,
    )
    .execute(db);
}
