import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { noWorker, WORKER_ALIVE_SECONDS } from '../../reads/check/workers.ts';

/**
 * Asks a worker to drain; again is no error.
 * Throws: `not_found` without the worker, `conflict` when it is dead.
 * Locks: its row.
 */
export async function requestDrain(db: Database, projectId: string, id: string): Promise<void> {
  const { rows } = await sql<{ readonly is_alive: boolean }>`
    update worker set drain_requested_at = coalesce(drain_requested_at, app_now())
     where id = ${id}::uuid and project_id = ${projectId}::uuid
    returning heartbeat_at > app_now() - ${WORKER_ALIVE_SECONDS}::int * interval '1 second' as is_alive
  `.execute(db);
  const [worker] = rows;
  if (worker === undefined) throw noWorker(id);
  if (!worker.is_alive)
    throw new NightshiftError(
      'conflict',
      `The worker worker-${id} is dead: no heartbeat for ${WORKER_ALIVE_SECONDS} seconds. Its leases lapse by themselves.`,
    );
}
