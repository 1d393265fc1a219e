import { z } from 'zod';
import { WORKER_ID } from './examples/ids.ts';
import { shownId } from './ids.ts';
import { shownTime } from './moment.ts';

const leases = z
  .object({
    batches: z.int(),
    provider_batches: z.int(),
    chunks: z.int().describe('Parts of batches: runs that wait for their next request, or for their tools.'),
    credentials: z.int().describe('Provider keys: one worker sends at a time.'),
    removed_batches: z.int().describe('Deleted batches, whose rows are being removed.'),
  })
  .meta({ id: 'WorkerLeases' });

/** A worker on the wire. */
export const workerResponse = z
  .object({
    id: shownId('worker'),
    name: z.string().describe('Its name in logs.'),
    owner: z.string().describe('Its name in leases.'),
    host: z.string(),
    pid: z.int(),
    version: z.string(),
    state: z
      .enum(['alive', 'draining', 'dead'])
      .meta({ id: 'WorkerState' })
      .describe('`draining`: it takes no new work. `dead`: no heartbeat for a minute.'),
    started_at: shownTime,
    heartbeat_at: shownTime.describe('The last heartbeat; there is one each ten seconds.'),
    drain_requested_at: shownTime.nullable(),
    leases: leases.describe('What it holds at present.'),
    tools: z.array(z.string()).describe('Its module tools, by name.'),
  })
  .meta({
    id: 'Worker',
    examples: [
      {
        id: WORKER_ID,
        name: 'worker-1',
        owner: 'worker-1@night-host:4711-9f3c2a',
        host: 'night-host',
        pid: 4711,
        version: '0.1.0',
        state: 'alive',
        started_at: '2026-11-30T01:00:00.000Z',
        heartbeat_at: '2026-11-30T02:14:10.000Z',
        drain_requested_at: null,
        leases: { batches: 0, provider_batches: 2, chunks: 1, credentials: 0, removed_batches: 0 },
        tools: ['search_orders'],
      },
    ],
  });
export type WorkerResponse = z.output<typeof workerResponse>;
