import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** What the server says of itself to a role without special rights. */
export interface DatabaseState {
  /** Such as 18. */
  readonly version: number;
  readonly role: string;
  readonly is_superuser: boolean;
  /** False on a standby or in read-only mode. */
  readonly takes_writes: boolean;
  readonly size_bytes: number;
  /** Connections of clients to all databases of the server. */
  readonly connections: number;
  /** Connections that the role of `db` may use: without the reserved ones, unless it is a superuser. */
  readonly connections_max: number;
  readonly now: Date;
}

/** Reads the state of the server. */
export async function readDatabaseState(db: Database): Promise<DatabaseState> {
  const { rows } = await sql<DatabaseState>`
    select current_setting('server_version_num')::int / 10000 as version, current_user::text as role,
           current_setting('is_superuser')::boolean as is_superuser,
           not (pg_is_in_recovery() or current_setting('default_transaction_read_only')::boolean) as takes_writes,
           pg_database_size(current_database()) as size_bytes,
           (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as connections,
           current_setting('max_connections')::int - case when current_setting('is_superuser')::boolean then 0
             else current_setting('superuser_reserved_connections')::int
                  + coalesce(current_setting('reserved_connections', true)::int, 0) end as connections_max,
           app_now() as now
  `.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error('The database returned no row about itself.');
  return row;
}

/** A statement that runs for long, or a transaction that is left open. */
export interface SlowStatement {
  readonly application_name: string;
  readonly pid: number;
  readonly kind: 'running' | 'idle_in_transaction';
  readonly seconds: number;
}

/** Times from which a statement or an idle transaction counts as slow. Unit: s. */
const SLOW_SECONDS = { running: 30, idle_in_transaction: 60 };

/**
 * Reads the slow statements in this database, without their text, which may hold data; the longest first. `from`: default 30 s and 60 s. Audits, whose
 * statements read whole tables, are left out. Without the right `pg_read_all_stats`, statements of other roles are not seen.
 */
export async function readSlowStatements(
  db: Database,
  limit: number,
  from: Readonly<Record<SlowStatement['kind'], number>> = SLOW_SECONDS,
): Promise<readonly SlowStatement[]> {
  const { rows } = await sql<SlowStatement>`
    select s.application_name, s.pid, s.kind, s.seconds
      from (select application_name, pid,
                   case state when 'active' then 'running' else 'idle_in_transaction' end as kind,
                   extract(epoch from clock_timestamp() - case state when 'active' then query_start else state_change end)::int as seconds
              from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
               and state in ('active', 'idle in transaction', 'idle in transaction (aborted)')
               and application_name not like 'nightshift-audit%' and application_name <> 'nightshift-api-audit') s
     where s.seconds > case s.kind when 'running' then ${from.running}::int else ${from.idle_in_transaction}::int end
     order by s.seconds desc limit ${limit}
  `.execute(db);
  return rows;
}

/**
 * Estimates the growth of the database: its size, by the share of the stored steps that the last seven days added. Null
 * without steps, or before the first statistics. Unit: bytes a day.
 */
export async function readGrowth(db: Database, projectId: string): Promise<number | null> {
  const { rows } = await sql<{ growth: number | null }>`
    select case when c.stored > 0 and u.steps > 0
             then (pg_database_size(current_database()) * least(1, u.steps / c.stored) / 7)::float8 end as growth
      from (select coalesce(sum(steps), 0)::float8 as steps from usage_day
             where project_id = ${projectId}::uuid and day > (app_now() at time zone 'UTC')::date - 7) u,
           (select reltuples::float8 as stored from pg_class where oid = 'step'::regclass) c
  `.execute(db);
  return rows[0]?.growth ?? null;
}
