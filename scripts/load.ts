import { join, resolve } from 'node:path';
import { endWith, given, orEnd, readCommandLine } from './command-line.ts';
import { checkBooks, showChecks, type Check } from './demo/checks.ts';
import { createClient } from './demo/client.ts';
import { untilEnded } from './demo/until-ended.ts';
import { inputOf, storeLoadAgents } from './load/agents.ts';
import { watchMemory } from './load/memory.ts';
import { emptyDataDirectory } from './stack/data-directory.ts';
import { startStack, type Stack } from './stack/stack.ts';

// One large batch through real processes: how fast steps go, and how much memory a worker takes. Every run makes three
// steps, two of them memory calls. Ends with 1 when a run, the provider's ledger or the memory is not as it must be.
const { flags } = readCommandLine({
  name: 'load',
  what: 'One large batch through real processes: how fast steps go, and how much memory a worker takes.',
  takes: 'one to three minutes for 20,000 runs',
  flags: {
    runs: { value: 'count', default: '20000', whole: true, what: 'runs of the batch, three steps each' },
    workers: { value: 'count', default: '2', whole: true, what: 'worker processes' },
    'node-arguments': {
      value: 'text',
      what: "flags for the Node of the workers in place of the stack's own, separated by spaces; empty for none",
    },
  },
});
const runs = Number(flags.runs);
const workers = Number(flags.workers);

const STEPS_PER_RUN = 3;
const WORKER_MEMORY_MB_MAX = 400;

const dataDir = resolve('.data/load');
const say = (text = ''): void => void process.stdout.write(`${text}\n`);

const queueUrl = given('QUEUE_URL');

orEnd(() => {
  emptyDataDirectory(dataDir);
});
process.stderr.write(`Starting Postgres, the API and ${workers} workers …\n`);
const stack = await startStack({
  dataDir,
  workers,
  port: 0,
  toolsDir: join(import.meta.dirname, '../samples/tools'),
  simulatorLatency: 'uniform:200-900',
  guest: 'load',
  databaseUrl: given('DATABASE_URL'),
  queueUrl,
  workerNodeArguments: flags['node-arguments']?.split(' ').filter((flag) => flag !== ''),
  // Sizes are the defaults; only the looks come more often, because the simulated provider answers within a second.
  workerEnv: { POLL_INTERVAL_MS: '250', GATHER_WINDOW_MS: '500', SWEEP_INTERVAL_MS: '500' },
}).catch(endWith);
let holds = false;
try {
  holds = await runLoad(stack);
} finally {
  await stack.stop();
}
process.exit(holds ? 0 : 1);

async function runLoad(stack: Stack): Promise<boolean> {
  const client = createClient(stack.apiUrl, stack.apiKey);
  const memory = watchMemory(stack.workers);
  const beginsAt = performance.now();
  const agentIds = await storeLoadAgents(stack.db, runs);
  const storedAt = performance.now();
  process.stderr.write(
    `${runs} agents stored in ${seconds(storedAt - beginsAt)}, in bulk and past the API, which is not what is measured\n`,
  );
  const created = await client.post<{ readonly id: string }>('/v1/messages/batches', {
    requests: agentIds.map((id, place) => ({ agent_id: `agent-${id}`, input: inputOf(place) })),
  });
  const acceptedAt = performance.now();
  process.stderr.write(`one batch of ${runs} runs accepted over HTTP in ${seconds(acceptedAt - storedAt)}\n`);

  const { usage } = await untilEnded(client, stack, created.id, {
    label: 'load',
    stepsExpected: runs * STEPS_PER_RUN,
    logs: join(dataDir, 'logs'),
  });
  const tookMs = performance.now() - acceptedAt;
  const peaks = [...memory.peaks()];
  memory.stop();

  const { rows } = await stack.pool.query<{ count: number; requests: number }>(
    'select count(*)::int as count, max(request_count) as requests from provider_batch',
  );
  say(`${usage.steps} steps in ${seconds(tookMs)}: ${Math.round((usage.steps / tookMs) * 1_000)} steps/s`);
  say(`${rows[0]?.count} provider batches, the largest of ${rows[0]?.requests} requests`);
  for (const [name, peak] of peaks) say(`${name}: at most ${peak.toFixed(0)} MB resident`);

  // Without fresh statistics the planner takes the tables for the empty ones that they were a minute ago.
  await stack.pool.query('analyze');
  const checks: Check[] = [
    {
      claim: 'every run took its steps',
      holds: usage.steps === runs * STEPS_PER_RUN,
      detail: `${usage.steps} of ${runs * STEPS_PER_RUN}`,
    },
    ...(await checkBooks(stack, [created.id.slice('job-'.length)])),
    {
      claim: `no worker took more than ${WORKER_MEMORY_MB_MAX} MB`,
      holds: peaks.every(([, peak]) => peak <= WORKER_MEMORY_MB_MAX),
      detail:
        peaks.length === 0
          ? 'this system does not tell'
          : peaks.map(([, peak]) => `${peak.toFixed(0)} MB`).join(', '),
    },
  ];
  return showChecks(checks);
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
