import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from './connect.ts';
import type { DB } from './tables.ts';

export type Privilege = 'select' | 'insert' | 'update' | 'delete';

/** The privileges of a working program; an audit only reads. */
export const ALL_PRIVILEGES: readonly Privilege[] = ['select', 'insert', 'update', 'delete'];

/** The names of all tables, compared with `tables.ts` by the compiler. */
const TABLES: Readonly<Record<keyof DB, true>> = {
  project: true,
  conversation: true,
  conversation_summary: true,
  agent: true,
  block: true,
  block_revision: true,
  block_event: true,
  held_change: true,
  passage: true,
  agent_block: true,
  tool: true,
  tool_code: true,
  tool_trial: true,
  tool_grant: true,
  tool_bucket: true,
  mcp_server: true,
  mcp_tool: true,
  agent_tool: true,
  definition: true,
  batch: true,
  batch_budget: true,
  batch_tally: true,
  batch_minute: true,
  ended_runs: true,
  sent_steps: true,
  event: true,
  callback_event: true,
  run: true,
  queued_input: true,
  run_failure: true,
  batch_retry_run: true,
  batch_label: true,
  unstarted_input: true,
  credential: true,
  provider_batch: true,
  doubted_submission: true,
  step: true,
  message: true,
  tool_call: true,
  tool_call_output: true,
  run_chunk: true,
  result_line: true,
  schedule: true,
  tick: true,
  batch_agent: true,
  session: true,
  upload: true,
  staged_line: true,
  waiting_message: true,
  cursor_span: true,
  cursor_rewind: true,
  audit_report: true,
  idempotency_key: true,
  token_calibration: true,
  prompt_density: true,
  memory_notice: true,
  turnaround: true,
  model_outage: true,
  failed_lines: true,
  work_statistic: true,
  deleted_item: true,
  forgotten_batch: true,
  forgotten_run: true,
  usage_day: true,
  secret: true,
  worker: true,
};

/**
 * Checks that the role of `db` has the privileges on every table and may read the applied migrations; also without tables.
 * Throws: `database_unreachable` with the missing grant.
 */
export async function assertGranted(db: Database, privileges = ALL_PRIVILEGES): Promise<void> {
  const sentence = await missingGrant(db, Object.keys(TABLES), privileges);
  const unread = sentence ?? (await missingGrant(db, ['kysely_migration'], ['select']));
  if (unread !== null) throw new NightshiftError('database_unreachable', unread);
}

/** Converts a permission error of a migration to an error with the missing right; returns other errors unchanged. */
export async function explainDenied(db: Database, error: unknown): Promise<unknown> {
  const { code, message = '' } = error as { readonly code?: unknown; readonly message?: string };
  if (code !== '42501') return error;
  const sentence =
    (await missingCreate(db)) ??
    (await missingGrant(db, ['kysely_migration', 'kysely_migration_lock'], ALL_PRIVILEGES)) ??
    (await foreignOwner(db)) ??
    `The database refuses a right that the migrations need: ${message}. Migrate as the owner of the tables.`;
  return new NightshiftError('database_unreachable', sentence, { cause: error });
}

/** Returns the sentence about missing privileges on tables; null without any, or without tables. */
async function missingGrant(
  db: Database,
  tables: readonly string[],
  privileges: readonly Privilege[],
): Promise<string | null> {
  // By pg_class, which every role may read: a schema without usage is not in the search path.
  const { rows } = await sql<{
    role: string;
    schema: string;
    table: string;
    privilege: string;
    uses: boolean;
  }>`
    with place as (
      select relnamespace as oid from pg_class where relname = 'kysely_migration' and relkind = 'r'
       order by pg_table_is_visible(oid) desc, relnamespace::regnamespace::text = 'public' desc limit 1)
    select current_user::text as role, place.oid::regnamespace::text as schema, relname::text as table, privilege,
           has_schema_privilege(place.oid, 'usage') as uses
      from place
      join pg_class c on c.relnamespace = place.oid and c.relkind in ('r', 'p')
       and c.relname = any(${[...tables]}::text[])
     cross join unnest(${[...privileges]}::text[]) with ordinality as wanted (privilege, place)
     where not has_schema_privilege(c.relnamespace, 'usage') or not has_table_privilege(c.oid, privilege)
     order by relname, wanted.place
  `.execute(db);
  const [first] = rows;
  if (first === undefined) return null;
  const { role, schema, table, uses } = first;
  if (!uses)
    return `The role "${role}" may not use schema ${schema}. Run as its owner: grant usage on schema ${schema} to "${role}";`;
  const denied = [...new Set(rows.map((row) => row.privilege))];
  const others = new Set(rows.map((row) => row.table)).size - 1;
  const [named, place] =
    others === 0
      ? [`table "${table}"`, `table ${schema}."${table}"`]
      : [`table "${table}" and ${others} more`, `all tables in schema ${schema}`];
  return (
    `The role "${role}" may not ${denied.join(', ').toUpperCase()} on ${named}. ` +
    `Run as their owner: grant ${denied.join(', ')} on ${place} to "${role}";`
  );
}

/** Returns the sentence about a schema without the create right; null when it may create. */
async function missingCreate(db: Database): Promise<string | null> {
  const { rows } = await sql<{ role: string; schema: string; creates: boolean }>`
    select current_user::text as role, n.oid::regnamespace::text as schema,
           has_schema_privilege(n.oid, 'usage') and has_schema_privilege(n.oid, 'create') as creates
      from pg_namespace n where nspname = coalesce(current_schema(), 'public')
  `.execute(db);
  const [place] = rows;
  if (place === undefined || place.creates) return null;
  const { role, schema } = place;
  return (
    `The role "${role}" may not CREATE in schema ${schema}. ` +
    `Run as its owner: grant usage, create on schema ${schema} to "${role}";`
  );
}

/** Returns the sentence about tables of another owner; null when the role owns all tables. */
async function foreignOwner(db: Database): Promise<string | null> {
  const { rows } = await sql<{ role: string; owner: string; table: string }>`
    select current_user::text as role, pg_get_userbyid(relowner)::text as owner, relname::text as table from pg_class
     where relname = any(${Object.keys(TABLES)}::text[]) and relkind in ('r', 'p') and pg_table_is_visible(oid)
       and not pg_has_role(relowner, 'usage') order by relname limit 1
  `.execute(db);
  const [first] = rows;
  if (first === undefined) return null;
  const { role, owner, table } = first;
  return (
    `The role "${role}" does not own table "${table}", which migrations change. ` +
    `Migrate as "${owner}", or run as a superuser: grant "${owner}" to "${role}";`
  );
}
