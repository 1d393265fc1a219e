import { NightshiftError } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';

/** A worker, by its last heartbeat. */
export interface WorkerRow {
  readonly id: string;
  /** Its owner in leases. */
  readonly owner: string;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly started_at: Date;
  readonly heartbeat_at: Date;
  readonly tools: Readonly<Record<string, string>>;
  /** Its last heartbeat is less than {@link WORKER_ALIVE_SECONDS} old. */
  readonly is_alive: boolean;
  readonly drain_requested_at: Date | null;
}

/** Age of a heartbeat from which a worker counts as dead. Unit: s. */
export const WORKER_ALIVE_SECONDS = 60;

/** Reads the workers of the last day, those with the latest heartbeat first. Stopped workers are left out. */
export async function readWorkers(
  db: Database,
  projectId: string,
  limit: number,
): Promise<readonly WorkerRow[]> {
  const { rows } = await selectWorkers(
    projectId,
    sql`order by heartbeat_at desc, owner limit ${limit}`,
  ).execute(db);
  return rows;
}

/** Reads a worker. Throws: `not_found`, also once it has stopped. Index: `worker_id_key`. */
export async function readWorker(db: Database, projectId: string, id: string): Promise<WorkerRow> {
  const { rows } = await selectWorkers(projectId, sql`and id = ${id}::uuid`).execute(db);
  const [worker] = rows;
  if (worker === undefined) throw noWorker(id);
  return worker;
}

/** The error of a request for a worker without a row. */
export function noWorker(id: string): NightshiftError {
  return new NightshiftError(
    'not_found',
    `There is no worker worker-${id}: it has stopped, or never was. GET /v1/workers lists the present ones.`,
  );
}

function selectWorkers(projectId: string, rest: RawBuilder<unknown>): RawBuilder<WorkerRow> {
  return sql<WorkerRow>`
    select id, owner, name, host, pid, version, started_at, heartbeat_at, tools, drain_requested_at,
           heartbeat_at > app_now() - ${WORKER_ALIVE_SECONDS}::int * interval '1 second' as is_alive
      from worker where project_id = ${projectId}::uuid ${rest}`;
}
