import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** A worker as it describes itself. */
export interface WorkerSelf {
  /** Its owner in leases. */
  readonly owner: string;
  /** Its name in logs. */
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  /** Its module tools: a hash of the definition by name. */
  readonly tools: Readonly<Record<string, string>>;
}

/** Age at which the row of a dead worker is removed. Unit: hours. */
const DEAD_HOURS = 24;

/**
 * Renews the row of a worker, or inserts it, and removes the rows of workers that have been dead for a day. Returns whether
 * the worker is asked to drain.
 * Locks: its row, and rows of dead workers that no other worker removes.
 */
export async function commitHeartbeat(db: Database, projectId: string, self: WorkerSelf): Promise<boolean> {
  const { rows } = await sql<{ readonly drains: boolean }>`
    with dead as (
      select owner from worker
       where heartbeat_at < app_now() - ${DEAD_HOURS}::int * interval '1 hour' and owner <> ${self.owner}
         for update skip locked),
    removed as (delete from worker w using dead d where w.owner = d.owner)
    insert into worker (owner, project_id, name, host, pid, version, tools)
    values (${self.owner}, ${projectId}::uuid, ${self.name}, ${self.host}, ${self.pid}, ${self.version},
            ${JSON.stringify(self.tools)}::json)
    on conflict (owner) do update set heartbeat_at = excluded.heartbeat_at
    returning drain_requested_at is not null as drains
  `.execute(db);
  return rows[0]?.drains === true;
}

/** Removes the row of a worker that stops. */
export async function removeWorker(db: Database, owner: string): Promise<void> {
  await db.deleteFrom('worker').where('owner', '=', owner).execute();
}
