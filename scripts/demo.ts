import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { isError } from '../libs/agent-core/src/index.ts';
import { endWith, given, orEnd, readCommandLine } from './command-line.ts';
import { createAgents, readMemories, type DemoAgent } from './demo/agents.ts';
import { checkBooks, countApplied, countLeftRuns, showChecks, type Check } from './demo/checks.ts';
import { createClient, keyForShell, type Client } from './demo/client.ts';
import { describeCrash, killWorker, waitsFor, type Aftermath } from './demo/crash.ts';
import { renderDiff } from './demo/memory-diff.ts';
import type { BatchProgress, ProgressBar } from './demo/progress.ts';
import { untilEnded } from './demo/until-ended.ts';
import { checkMemories } from './samples/check.ts';
import { buildPrompt } from './samples/prompt.ts';
import { readExpected, readSamples, sampleFiles, type MemoryLabel, type Sample } from './samples/sample.ts';
import {
  dataDirectory,
  emptyDataDirectory,
  makeInDataDirectory,
  refuseOthersDirectory,
} from './stack/data-directory.ts';
import { wantedPort } from './stack/port.ts';
import { apiSettings, providerWithKey, workerSettings } from './stack/settings.ts';
import { workOnStack } from './stack/signals.ts';
import { startStack, type Stack } from './stack/stack.ts';

// A few hundred agents rewrite their memories from real release notes, through provider batches and two worker
// processes, one of which is killed on the way. Ends with checks against facts parsed from the same notes.
const { flags } = readCommandLine({
  name: 'demo',
  what: 'A few hundred agents rewrite their memories; a worker is killed on the way; the result is checked.',
  takes: 'half a minute to two with the simulated model',
  flags: {
    agents: { value: 'count', whole: true, what: 'how many agents; all, or 10 with a real key' },
    fresh: { what: 'remove first what earlier starts have left in the data directory' },
    'no-chaos': { what: 'kill no worker' },
  },
});
const key = given('ANTHROPIC_API_KEY');
const real = key !== undefined;
const databaseUrl = given('DATABASE_URL');
const dataDir = dataDirectory();
const out = join(dataDir, 'demo');
const colour = process.stdout.isTTY && process.env.NO_COLOR === undefined;
const say = (text = ''): void => void process.stdout.write(`${text}\n`);

/** Real money is spent on a few agents only, unless more are asked for by number. */
const REAL_AGENTS_DEFAULT = 10;
/** Workers look more often than by default, because the simulated provider answers within a second or two. */
const DEMO_WORKER_ENV = {
  LEASE_MS: '3000',
  SWEEP_INTERVAL_MS: '500',
  GATHER_WINDOW_MS: '200',
  POLL_INTERVAL_MS: '200',
  CREATE_TIMEOUT_MS: '10000',
  QUARANTINE_MS: '6000',
  SEARCH_INTERVAL_MS: '1000',
  RETRY_DELAY_MS: '500',
  REQUESTS_MAX: '120',
};

const startedAt = performance.now();
// Before anything is removed or started.
const port = orEnd(wantedPort);
orEnd(() => {
  makeInDataDirectory(dataDir);
  if (flags.fresh) {
    refuseOthersDirectory(dataDir);
    emptyDataDirectory(dataDir);
  }
});
const all = readSamples();
const wanted = flags.agents === undefined ? (real ? REAL_AGENTS_DEFAULT : all.length) : Number(flags.agents);
const samples = all.slice(0, wanted);

say(
  real
    ? `Model: REAL, on your key: ${providerWithKey(process.env)}.`
    : 'Model: simulated. Input, queue, database and workers: real.',
);
if (real) say(`${samples.length} agents; --agents ${all.length} for all of them.`);
process.stderr.write('Starting Postgres, the API and two workers …\n');
const start = (): Promise<Stack> =>
  startStack({
    dataDir,
    workers: 2,
    ...port,
    toolsDir: sampleFiles.tools,
    simulatorLatency: 'uniform:200-900',
    ...(real
      ? {
          anthropicApiKey: key,
          apiEnv: apiSettings(process.env),
          workerEnv: workerSettings(process.env),
        }
      : { workerEnv: DEMO_WORKER_ENV, look: refuseLeftRuns }),
    guest: 'demo',
    databaseUrl,
    queueUrl: given('QUEUE_URL'),
  }).catch((error: unknown) =>
    endWith(isError(error, 'other_provider') ? new Error(`${error.message}${freshHint()}`) : error),
  );
const holds = await workOnStack(start, (stack) => runDemo(stack, samples));
say(`\nTook ${((performance.now() - startedAt) / 1000).toFixed(1)} s.`);
process.exit(holds ? 0 : 1);

/** Throws if runs of earlier starts are unfinished. */
async function refuseLeftRuns(pool: pg.Pool): Promise<void> {
  const left = await countLeftRuns(pool);
  if (left === 0) return;
  throw new Error(
    `Runs of earlier starts are not finished (${left}), and the provider would bill them among the demo's. ` +
      `Let npm start finish them.${freshHint()}`,
  );
}

/** Explains how to remove earlier work, if the demo may remove the database. */
function freshHint(): string {
  return databaseUrl === undefined
    ? ' Or remove them and all else in the database: npm run demo -- --fresh'
    : '';
}

async function runDemo(stack: Stack, samples: readonly Sample[]): Promise<boolean> {
  const client = createClient(stack.apiUrl, stack.apiKey);
  const agents = await createAgents(client, samples, 'anthropic/claude-haiku-4-5');
  say(
    `${agents.length} agents, each with a few releases of one of ${new Set(samples.map((sample) => sample.package)).size} packages.\n`,
  );

  const evening = await runBatch(client, stack, agents, 'evening', {
    withoutLatest: true,
    chaos: !flags['no-chaos'] && !real,
  });
  const before = await readMemories(client, agents);
  if (evening.aftermath !== null) {
    await stack.addWorker('worker-3');
    say(`worker-3 started in place of ${evening.aftermath.victim}; nothing else is needed to add one.`);
  }
  const night = await runBatch(client, stack, agents, 'night  ', { withoutLatest: false, chaos: false });
  const after = await readMemories(client, agents);

  showDiff(agents, before, after);
  const memories = checkMemories(
    samples,
    readExpected().filter((row) => after.has(row.custom_id)),
    after,
  );
  const batchIds = [evening.id, night.id].map((id) => id.slice('job-'.length));
  const checks: Check[] = [
    ...(await checkBooks(stack, batchIds)),
    {
      claim: 'the memories hold the facts of the notes',
      holds: real || memories.missing.length === 0,
      detail: `${memories.checked - memories.missing.length} of ${memories.checked} facts found`,
    },
  ];
  if (!real) {
    const steps = evening.batch.usage.steps + night.batch.usage.steps;
    checks.push({
      claim: 'it was enough to mean something',
      holds: agents.length < 300 || steps >= 900,
      detail: `${agents.length} agents, ${steps} steps`,
    });
  }
  if (evening.aftermath !== null) {
    const { text, check } = await describeCrash(
      evening.aftermath,
      (await countApplied(stack.pool, batchIds)).twice,
    );
    say(`\n${text}`);
    if (check !== null) checks.push(check);
  }
  say('\nChecks');
  const holds = showChecks(checks);
  showTotals(stack, agents, [evening, night], after);
  return holds;
}

interface FinishedBatch {
  readonly id: string;
  readonly batch: BatchProgress;
  readonly aftermath: Aftermath | null;
}

async function runBatch(
  client: Client,
  stack: Stack,
  agents: readonly DemoAgent[],
  label: string,
  options: { readonly withoutLatest: boolean; readonly chaos: boolean },
): Promise<FinishedBatch> {
  const created = await client.post<{ readonly id: string }>('/v1/messages/batches', {
    requests: agents.map(({ id, sample }) => ({
      agent_id: id,
      custom_id: sample.custom_id,
      input: buildPrompt(sample, { forSimulator: !real, withoutLatest: options.withoutLatest }),
    })),
  });
  let aftermath: Aftermath | null = null;
  const batch = await untilEnded(client, stack, created.id, {
    label,
    stepsExpected: agents.length * 3,
    logs: join(dataDir, 'logs'),
    mayRest: real,
    waitsFor: (quietMs) => waitsFor(aftermath, quietMs),
    async onLook({ usage }, bar) {
      if (options.chaos && aftermath === null && usage.steps >= agents.length)
        aftermath = await crash(stack, bar);
    },
  });
  return { id: created.id, batch, aftermath };
}

async function crash(stack: Stack, bar: ProgressBar): Promise<Aftermath | null> {
  const aftermath = await killWorker(stack);
  if (aftermath === null) return null;
  const { victim, pid, survivor, held } = aftermath;
  bar.note(
    `✂ kill -9 ${victim} (pid ${pid}), on purpose; ${survivor} goes on alone` +
      (held === 0 ? '' : ', and with what it held once its leases have run out, within 20 s or so'),
  );
  return aftermath;
}

function showDiff(
  agents: readonly DemoAgent[],
  before: ReadonlyMap<string, Record<MemoryLabel, string>>,
  after: ReadonlyMap<string, Record<MemoryLabel, string>>,
): void {
  const changed = agents
    .map(({ sample }) => ({
      sample,
      old: before.get(sample.custom_id)?.breaking_changes ?? '',
      new: after.get(sample.custom_id)?.breaking_changes ?? '',
    }))
    .filter((memory) => memory.old !== memory.new && memory.old !== '')
    .sort((a, b) => a.new.length - b.new.length);
  const shown = changed[Math.floor(changed.length / 3)];
  if (shown === undefined) return;
  say(
    `\nWhat the night changed in the memory of ${shown.sample.package} ${shown.sample.line}, block breaking_changes:`,
  );
  say(renderDiff(shown.old, shown.new, { colour, linesMax: 14 }));
}

function showTotals(
  stack: Stack,
  agents: readonly DemoAgent[],
  batches: readonly FinishedBatch[],
  memories: ReadonlyMap<string, Record<MemoryLabel, string>>,
): void {
  const sum = (of: (usage: BatchProgress['usage']) => number): number =>
    batches.reduce((total, { batch }) => total + of(batch.usage), 0);
  const runs = batches.reduce((total, { batch }) => total + batch.counts.total, 0);
  const results = join(out, 'memories.jsonl');
  makeInDataDirectory(out);
  writeFileSync(
    results,
    agents
      .map(
        ({ id, sample }) =>
          `${JSON.stringify({ agent_id: id, custom_id: sample.custom_id, memory: memories.get(sample.custom_id) })}\n`,
      )
      .join(''),
  );
  say('\nTotals');
  say(`  ${runs} runs, ${sum((u) => u.steps)} steps, ${sum((u) => u.tool_calls)} tool calls`);
  say(
    `  ${sum((u) => u.input_tokens).toLocaleString('en')} tokens read, ${sum((u) => u.output_tokens).toLocaleString('en')} written, $${sum((u) => Number(u.cost_usd)).toFixed(4)}${real ? '' : ' simulated'}`,
  );
  say(`  memories: ${results}; batches: ${batches.map((batch) => batch.id).join(', ')}`);
  say('\nNext');
  say('  npm start                                     # keep the service up; prints URL and key');
  say(
    `  curl -H "Authorization: Bearer ${keyForShell(dataDir)}" '${stack.apiUrl}/v1/messages/batches?limit=2'`,
  );
  say('  npm test                                      # the whole suite on this machine');
}
