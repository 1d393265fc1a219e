import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';

/** A credential, and models whose requests it sends. */
export interface CredentialModels {
  readonly project_id: string;
  readonly credential: string;
  readonly models: readonly string[];
}

/**
 * Notes that fresh requests of models prove an outage: begins it, or prolongs the present one.
 * Locks: the rows of the models in their order.
 */
export async function commitOutages(
  db: Database,
  { project_id, credential, models }: CredentialModels,
): Promise<void> {
  if (models.length === 0) return;
  await sql`
    insert into model_outage as o (credential, model, project_id, outages, began_at, seen_at)
    select ${credential}, model, ${project_id}::uuid, 1, (select app_now()), (select app_now())
      from unnest(${[...models]}::text[]) as u(model) order by model
    on conflict (credential, model) do update
       set outages = o.outages + case when o.ended_at is null then 0 else 1 end,
           began_at = case when o.ended_at is null then o.began_at else excluded.began_at end,
           seen_at = excluded.seen_at, ended_at = null
  `.execute(db);
}

/**
 * Ends the outages of models that answer again. Writes nothing if there is none.
 * Locks: the rows of the models in their order.
 */
export async function commitOutagesOver(
  db: Database,
  { credential, models }: Omit<CredentialModels, 'project_id'>,
): Promise<void> {
  if (models.length === 0) return;
  await sql`
    with over ${AS_FIRST} (
      select model from model_outage
       where credential = ${credential} and model = any(${[...models]}::text[]) and ended_at is null
       order by model for no key update)
    update model_outage o set ended_at = (select app_now())
      from over where o.credential = ${credential} and o.model = over.model
  `.execute(db);
}
