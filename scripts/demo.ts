import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { isError } from '../libs/agent-core/src/index.ts';
import { endWith, given, orEnd, readCommandLine } from './command-line.ts';
import { appendReleases, createAgents, readMemories, type DemoAgent } from './demo/agents.ts';
import { checkBooks, countApplied, countLeftRuns, showChecks, type Check } from './demo/checks.ts';
import { createClient, keyForShell, type Client } from './demo/client.ts';
import { describeCrash, killWorker, waitsFor, type Aftermath } from './demo/crash.ts';
import { acceptAll, renderDiff, type HeldChange } from './demo/held-changes.ts';
import type { BatchProgress, ProgressBar } from './demo/progress.ts';
import { untilEnded } from './demo/until-ended.ts';
import { checkMemories } from './samples/check.ts';
import { memoryLabels, readExpected, readSamples, type MemoryLabel, type Sample } from './samples/sample.ts';
import { rewriteInstruction } from './samples/transcript.ts';
import {
  dataDirectory,
  emptyDataDirectory,
  makeInDataDirectory,
  refuseOthersDirectory,
} from './stack/data-directory.ts';
import { wantedPort } from './stack/port.ts';
import { apiSettings, checkKeys, providerWithKey, workerSettings } from './stack/settings.ts';
import { workOnStack } from './stack/signals.ts';
import { startStack, type Stack } from './stack/stack.ts';

// A few hundred agents are told of real releases and rewrite their memories on a schedule, under review, with two worker
// processes, one of which is killed on the way. Ends with checks against facts parsed from the release notes.
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
/** Cap of each night. */
const MAX_COST_USD = 25;
/** Steps of a rewrite: its calls, and the end. */
const STEPS_PER_RUN = 2;
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
  checkKeys(process.env);
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
    toolsDir: '',
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
  // Selects the agents of this demo alone; by its form a later one knows them (refuseOthers).
  const tag = `demo-${Date.now().toString(36)}`;
  const agents = await createAgents(client, samples, { model: 'anthropic/claude-haiku-4-5', tag });
  say(
    `${agents.length} agents, each with a few releases of one of ${new Set(samples.map((sample) => sample.package)).size} packages.`,
  );
  const schedule = await createSchedule(client, tag);
  const toldBefore = await appendReleases(client, agents, ({ notes }) => notes.slice(1));
  say(`${toldBefore} messages appended: every release but the newest.\n`);
  const first = await runNow(client, stack, agents, {
    schedule,
    label: 'night 1',
    chaos: !flags['no-chaos'] && !real,
  });
  if (first.aftermath !== null) {
    await stack.addWorker('worker-3');
    say(`worker-3 started in place of ${first.aftermath.victim}; nothing else is needed to add one.`);
  }
  const firstReview = await acceptAll(client, first.id);
  say(
    `Accepted the changes of ${firstReview.accepted} blocks. ${await appendReleases(client, agents, ({ notes }) => notes.slice(0, 1))} messages appended: the newest release.\n`,
  );

  const second = await runNow(client, stack, agents, { schedule, label: 'night 2' });
  showDiff(agents, await client.get(`/v1/batches/${second.id}/held-changes?limit=200`));
  const secondReview = await acceptAll(client, second.id);
  say(`\nAccepted the changes of ${secondReview.accepted} blocks.\n`);

  const third = await runNow(client, stack, agents, { schedule, label: 'night 3' });
  const unchanged = third.batch.counts.skipped.nothing_new ?? 0;
  const nothingNew = `nothing new: ${unchanged} agents, $${Number(third.batch.usage.cost_usd).toFixed(2)}`;
  say(nothingNew);

  const after = await readMemories(client, agents);
  const nights = [first, second, third];
  const batchIds = nights.map(({ id }) => id.slice('job-'.length));
  const stale = firstReview.stale.length + secondReview.stale.length;
  const checks: Check[] = [
    ...(await checkBooks(stack, batchIds)),
    checkFacts(samples, after),
    {
      claim: 'every change was accepted',
      holds: stale === 0,
      detail: `${firstReview.accepted + secondReview.accepted} accepted, ${stale} in conflict`,
    },
    {
      claim: 'the last night had nothing to do',
      holds: unchanged === agents.length && third.batch.usage.steps === 0,
      detail: nothingNew,
    },
  ];
  if (!real) {
    const steps = nights.reduce((total, { batch }) => total + batch.usage.steps, 0);
    checks.push({
      claim: 'it was enough to mean something',
      holds: agents.length < 300 || steps >= 900,
      detail: `${agents.length} agents, ${steps} steps`,
    });
  }
  if (first.aftermath !== null) {
    const { text, check } = await describeCrash(
      first.aftermath,
      (await countApplied(stack.pool, batchIds)).twice,
    );
    say(`\n${text}`);
    if (check !== null) checks.push(check);
  }
  say('\nChecks');
  const holds = showChecks(checks);
  showTotals(agents, nights, after);
  showNext(stack, schedule);
  return holds;
}

/** Makes the schedule of the nights, paused: the demo starts each of them itself. Returns its id. */
async function createSchedule(client: Client, tag: string): Promise<string> {
  const { id } = await client.post<{ readonly id: string }>('/v1/schedules', {
    name: tag,
    cron: '0 2 * * *',
    time_zone: 'Europe/Berlin',
    body: {
      kind: 'memory_rewrite',
      agents: { tags: [tag] },
      blocks: memoryLabels,
      instruction: rewriteInstruction,
      apply: 'review',
      max_cost_usd: MAX_COST_USD,
    },
  });
  const { description } = await client.post<{ readonly description: string }>(
    `/v1/schedules/${id}/pause`,
    {},
  );
  say(`Schedule ${tag}: ${description}. Paused; the demo runs it now, three times.`);
  return id;
}

function checkFacts(
  samples: readonly Sample[],
  memories: ReadonlyMap<string, Record<MemoryLabel, string>>,
): Check {
  const expected = readExpected().filter((row) => memories.has(row.custom_id));
  const { checked, missing } = checkMemories(samples, expected, memories);
  return {
    claim: 'the memories hold the facts of the notes',
    holds: real || missing.length === 0,
    detail: `${checked - missing.length} of ${checked} facts found`,
  };
}

interface FinishedBatch {
  readonly id: string;
  readonly batch: BatchProgress;
  readonly aftermath: Aftermath | null;
}

async function runNow(
  client: Client,
  stack: Stack,
  agents: readonly DemoAgent[],
  options: { readonly schedule: string; readonly label: string; readonly chaos?: boolean },
): Promise<FinishedBatch> {
  const { job_id } = await client.post<{ readonly job_id: string }>(
    `/v1/schedules/${options.schedule}/run-now`,
    {},
  );
  let aftermath: Aftermath | null = null;
  const batch = await untilEnded(client, stack, job_id, {
    label: options.label,
    stepsExpected: agents.length * STEPS_PER_RUN,
    logs: join(dataDir, 'logs'),
    mayRest: real,
    waitsFor: (quietMs) => waitsFor(aftermath, quietMs),
    async onLook({ usage }, bar) {
      if (options.chaos === true && aftermath === null && usage.steps >= agents.length / 2)
        aftermath = await crash(stack, bar);
    },
  });
  return { id: job_id, batch, aftermath };
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

/** Prints the held changes of one agent: of one whose breaking_changes had text before. */
function showDiff(agents: readonly DemoAgent[], changes: readonly HeldChange[]): void {
  const candidates = changes
    .filter(({ label, diff }) => label === 'breaking_changes' && /^ /m.test(diff))
    .toSorted((a, b) => a.diff.length - b.diff.length);
  const chosen = candidates[Math.floor(candidates.length / 3)] ?? changes[0];
  const sample = agents.find(({ id }) => id === chosen?.agent_id)?.sample;
  if (chosen === undefined || sample === undefined) return;
  say(`\nHeld for review, ${sample.package} ${sample.line}:`);
  for (const { agent_id, label, diff } of changes) {
    if (agent_id === chosen.agent_id) say(`  ${label}\n${renderDiff(diff, { colour, linesMax: 10 })}`);
  }
}

function showTotals(
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
}

function showNext({ apiUrl }: Stack, schedule: string): void {
  const curl = `curl -H "Authorization: Bearer ${keyForShell(dataDir)}"`;
  say('\nNext');
  say('  npm start                                     # keep the service up; prints URL and key');
  say(`  ${curl} '${apiUrl}/v1/schedules/${schedule}/ticks'`);
  say(`  ${curl} -X POST '${apiUrl}/v1/schedules/${schedule}/resume'   # from now on every night`);
  say('  npm test                                      # the whole suite on this machine');
}
