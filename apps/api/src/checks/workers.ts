import { readMissingModuleTools, readWorkers, type WorkerRow } from '@nightshift/db';
import { countOf, judge, listOf, type CheckFunction } from './judged.ts';

const WORKERS_SHOWN = 100;

/** Checks that a worker is alive, and that all are of this release. */
export const checkWorkers: CheckFunction<'workers'> = async ({ read, context }) => {
  const workers = await read((db) => readWorkers(db, context.projectId, WORKERS_SHOWN));
  const alive = workers.filter(({ is_alive }) => is_alive);
  const dead = workers.length - alive.length;
  const others = alive.filter(({ version }) => version !== context.version);
  const gone = dead === 0 ? '' : ` ${dead} ended in the last day without a stop.`;
  return judge<'workers'>(
    { workers: workers.map(toShown) },
    `${countOf(alive.length, 'worker')} alive, version ${context.version}.${gone}`,
    [
      alive.length === 0 && [
        'failing',
        dead === 0
          ? 'No worker is alive.'
          : `No worker is alive; ${countOf(dead, 'worker')} ended without a stop.`,
        'Start one by npm start, or by node apps/worker/src/main.ts with its settings. Its log says why it ended.',
      ],
      others.length > 0 && [
        'warning',
        `The API is version ${context.version}, but ${listOf(others.map(({ name, version }) => `${name} is ${version}`))}.`,
        'Stop these workers and start them from the same release.',
      ],
    ],
  );
};

function toShown({ name, host, pid, version, started_at, heartbeat_at, is_alive, tools }: WorkerRow) {
  return {
    ...{ name, host, pid, version, is_alive },
    started_at: started_at.toISOString(),
    heartbeat_at: heartbeat_at.toISOString(),
    tools: Object.keys(tools).length,
  };
}

/** Checks that living workers have the tools of agents, all in the same form. */
export const checkTools: CheckFunction<'tools'> = async ({ read, context }) => {
  const { workers, missing } = await read(async (db) => {
    const rows = await readWorkers(db, context.projectId, WORKERS_SHOWN);
    const workers = rows.filter(({ is_alive }) => is_alive);
    const present = [...new Set(workers.flatMap(({ tools }) => Object.keys(tools)))];
    return { workers, missing: await readMissingModuleTools(db, context.projectId, present) };
  });
  if (workers.length === 0)
    return judge<'tools'>({ missing: [], differing: [] }, '', [
      ['warning', 'Without a worker the tools are unknown.', 'Start a worker first.'],
    ]);
  const differing = differingTools(workers);
  return judge<'tools'>(
    { missing: [...missing], differing },
    'Every worker has the same tools, and agents need no others.',
    [
      missing.length > 0 && [
        'failing',
        `No worker has the tools ${listOf(missing)}, which agents have.`,
        "Add their modules to TOOLS_DIR of every worker and restart it, or detach them. A worker's log names modules that it left out.",
      ],
      differing.length > 0 && [
        'warning',
        `The workers do not have the same ${differing.length === 1 ? 'tool' : 'tools'} ${listOf(differing)}.`,
        'Give all workers the same TOOLS_DIR and restart them: until then a call may fail by chance.',
      ],
    ],
  );
};

/** Returns the tools that some workers lack, or have with another definition. */
function differingTools(workers: readonly WorkerRow[]): string[] {
  const names = new Set(workers.flatMap(({ tools }) => Object.keys(tools)));
  return [...names]
    .filter(
      (name) =>
        new Set(workers.map(({ tools }) => (Object.hasOwn(tools, name) ? tools[name] : null))).size > 1,
    )
    .sort();
}
