import type { Worker } from '@nightshift/client';
import type { Define, Session } from '../session.ts';

/** The commands of workers. */
export const define: Define = (command, run) => {
  command.command('ls').description('list workers').action(run(list));
  command
    .command('drain')
    .description('let a worker finish its work under way, take no more, and end')
    .argument('<worker>', 'id of the worker')
    .action(run(drain));
};

async function list({ client, out }: Session): Promise<undefined> {
  await out.list(await client.admin.workers(), {
    head: ['id', 'name', 'state', 'version', 'host', 'leases', 'tools', 'heartbeat'],
    row: (worker) => [
      worker.id,
      worker.name,
      worker.state,
      worker.version,
      worker.host,
      leasesOf(worker),
      worker.tools.length,
      worker.heartbeat_at,
    ],
    empty: 'No worker is alive. npm start starts some.',
  });
}

async function drain({ client, out }: Session, _flags: object, id: string): Promise<undefined> {
  const worker = await client.admin.drainWorker(id);
  await out.record(worker, () => `${worker.id}  ${worker.state}`);
  out.note(
    'It takes no new work from its next heartbeat on, within ten seconds, and ends once its work is done.',
  );
}

function leasesOf({ leases }: Worker): number {
  return Object.values(leases).reduce((sum, count) => sum + count, 0);
}
