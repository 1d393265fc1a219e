import { toWireId } from '@nightshift/agent-core';
import type { LeaseCounts, WorkerRow } from '@nightshift/db';
import type { WorkerResponse } from '../schemas/worker.ts';

/** Converts a stored worker and its leases to an answer. */
export function toWorkerResponse(worker: WorkerRow, leases: LeaseCounts | undefined): WorkerResponse {
  const { name, owner, host, pid, version, is_alive, drain_requested_at } = worker;
  return {
    id: toWireId('worker', worker.id),
    ...{ name, owner, host, pid, version },
    state: stateOf(is_alive, drain_requested_at),
    started_at: worker.started_at.toISOString(),
    heartbeat_at: worker.heartbeat_at.toISOString(),
    drain_requested_at: drain_requested_at?.toISOString() ?? null,
    leases: {
      batches: leases?.batch ?? 0,
      provider_batches: leases?.provider_batch ?? 0,
      chunks: leases?.run_chunk ?? 0,
      credentials: leases?.credential ?? 0,
      removed_batches: leases?.forgotten_batch ?? 0,
    },
    tools: Object.keys(worker.tools).sort(),
  };
}

function stateOf(isAlive: boolean, drainRequestedAt: Date | null): WorkerResponse['state'] {
  if (!isAlive) return 'dead';
  return drainRequestedAt === null ? 'alive' : 'draining';
}
