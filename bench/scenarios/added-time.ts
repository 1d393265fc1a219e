/**
 * Measures the wall time that the product adds to a step: from the provider's end of a step's batch to the create of the
 * run's next step. All processes are real; the clocks of the database and of the provider run fast, so what the machine
 * takes counts {@link SPEED} times.
 */
import { join } from 'node:path';
import { createClient } from '../../scripts/demo/client.ts';
import { startStack, type Stack } from '../../scripts/stack/stack.ts';
import { stoppedAtEnd } from '../ending.ts';
import { removeDirectory } from '../directory.ts';
import { spreadOf } from '../measure/statistics.ts';
import { within } from '../measure/within.ts';
import { digits } from '../report/table.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const RUNS_DEFAULT = 60;
/** Seconds of the clocks in one of the machine's. */
const SPEED = 5;
/** Batches of about five minutes, in milliseconds of the clocks. */
const LATENCY = 'uniform:240000-360000';
/** Submitted batches, so that several provider batches are open, and their distance. Unit: seconds of the clocks. */
const WAVES = 3;
const WAVE_S = 100;
/** Tool calls of a run; its steps are one more. */
const CALLS = 4;
const ADDED_S_MAX = 10;
const LOOKS_PER_MINUTE_MAX = 6;

/** Default settings, with the times of the machine's clock that follow the database's clock made shorter, or longer. */
const WORKER_ENV = {
  SWEEP_INTERVAL_MS: String(2_000 / SPEED),
  LEASE_MS: String(10_000 * SPEED),
};

export async function addedTime(bench: Bench): Promise<ScenarioResult> {
  const runs = bench.options.runs?.[0] ?? RUNS_DEFAULT;
  const dir = join(bench.dir, 'product');
  removeDirectory(dir);
  const stack = await startStack({
    dataDir: dir,
    workers: 2,
    port: 0,
    toolsDir: join(import.meta.dirname, '../../samples/tools'),
    simulatorLatency: LATENCY,
    workerEnv: { ...WORKER_ENV, ...bench.options.workerEnv },
    async look(pool) {
      const now = new Date().toISOString();
      await pool.query(
        `create or replace function app_now() returns timestamptz language sql volatile parallel safe as
         $$ select '${now}'::timestamptz + (clock_timestamp() - '${now}'::timestamptz) * ${SPEED} $$`,
      );
    },
  });
  const stop = stoppedAtEnd(async () => {
    await stack.stop();
    removeDirectory(dir);
  });
  try {
    await control(stack, 'POST', '/clock/mode', { mode: `scaled:${SPEED}` });
    await runWaves(bench, stack, runs);
    return resultOf(runs, await readAdded(stack), await readLooks(stack));
  } finally {
    await stop();
  }
}

/** Submits the waves and waits for the end of all batches. */
async function runWaves(bench: Bench, stack: Stack, runs: number): Promise<void> {
  const client = createClient(stack.apiUrl, stack.apiKey);
  const batchIds: string[] = [];
  for (let wave = 0; wave < WAVES; wave++) {
    if (wave > 0) await pause((WAVE_S * 1_000) / SPEED);
    bench.say(`added-time: wave ${wave + 1} of ${WAVES}`);
    const { id: agent } = await client.post<{ readonly id: string }>('/v1/agents/', {
      name: `wave ${wave}`,
      model: 'anthropic/claude-haiku-4-5',
      include_base_tools: false,
      tools: ['core_memory_append', 'compare_versions'],
      memory_blocks: [{ label: 'notes', value: '' }],
    });
    const batch = await client.post<{ readonly id: string }>('/v1/batches', {
      template: { agent_id: agent, input: '{{ text }}' },
      inputs: Array.from({ length: Math.ceil(runs / WAVES) }, (_, place) => ({
        custom_id: `run-${place}`,
        variables: { text: workOf(wave, place) },
      })),
    });
    batchIds.push(batch.id);
  }
  const deadline = performance.now() + bench.options.timeoutMs;
  for (const id of batchIds) {
    for (;;) {
      const { status } = await client.get<{ readonly status: string }>(`/v1/batches/${id}`);
      if (status === 'completed') break;
      if (performance.now() > deadline) throw new Error(`Batch ${id} is ${status} after the --timeout.`);
      await pause(500);
    }
  }
}

/** Scripts the simulated model: a memory write, then a module's call, in turns. */
function workOf(wave: number, place: number): string {
  const calls = Array.from({ length: CALLS }, (_, index) =>
    index % 2 === 0
      ? { tool: 'core_memory_append', args: { label: 'notes', content: `${wave}/${place}/${index}` } }
      : { tool: 'compare_versions', args: { versions: ['1.10.0', '1.9.0'] } },
  );
  return calls.map((call) => JSON.stringify(call)).join('\n');
}

/** An added time, and the step before it. */
interface Added {
  readonly step: number;
  readonly ms: number;
}

/** Reads the time between each step's end at the provider and the create of the run's next step. */
async function readAdded(stack: Stack): Promise<readonly Added[]> {
  const { batches } = await control<{ batches: readonly { id: string; ended_at_ms: number | null }[] }>(
    stack,
    'GET',
    '/batches',
  );
  const endedAt = new Map(batches.map(({ id, ended_at_ms }) => [id, ended_at_ms]));
  const createdAt = new Map(
    (await journal(stack, 'create')).map(({ committed, at }) => [committed, Date.parse(at)]),
  );
  const { rows } = await stack.pool.query<{ step: number; before: string; after: string }>(
    `select s.number as step, b.provider_id as before, n.provider_id as after
       from step s join provider_batch b on b.id = s.provider_batch_id
       join step t on t.run_id = s.run_id and t.number = s.number + 1 and t.attempt = 1
       join provider_batch n on n.id = t.provider_batch_id
      where s.applied_at is not null`,
  );
  return rows.map(({ step, before, after }) => {
    const [from, to] = [endedAt.get(before), createdAt.get(after)];
    if (from == null || to === undefined)
      throw new Error(`The provider does not know ${before} or ${after}.`);
    return { step, ms: to - from };
  });
}

/** Reads the times of the looks at provider batches, ascending. */
async function readLooks(stack: Stack): Promise<readonly number[]> {
  const calls = [...(await journal(stack, 'list')), ...(await journal(stack, 'retrieve'))];
  // A list of one entry asks for the provider's time.
  return calls
    .filter(({ path }) => !path.endsWith('limit=1'))
    .map(({ at }) => Date.parse(at))
    .sort((a, b) => a - b);
}

function resultOf(runs: number, added: readonly Added[], looks: readonly number[]): ScenarioResult {
  const busiest = Math.max(
    0,
    ...looks.map((from) => looks.filter((at) => at >= from && at < from + 60_000).length),
  );
  const steps = [...new Set(added.map(({ step }) => step))].sort((a, b) => a - b);
  const row = (name: string, of: readonly Added[]): readonly string[] => {
    const seconds = of.map(({ ms }) => ms / 1_000);
    const { median, min, max } = spreadOf(seconds);
    return [name, String(of.length), digits(median), digits(min), digits(max)];
  };
  const { median } = spreadOf(added.map(({ ms }) => ms / 1_000));
  const minutes = ((looks.at(-1) ?? 0) - (looks[0] ?? 0)) / 60_000;
  return {
    title: `Wall time added per step: ${runs} runs of ${CALLS + 1} steps, provider batches of four to six minutes`,
    table: {
      head: ['after step', 'steps', 'median s', 'min', 'max'],
      rows: [
        ...steps.map((step) =>
          row(
            String(step),
            added.filter((each) => each.step === step),
          ),
        ),
        row('any', added),
      ],
    },
    figures: {
      runs,
      median_s: median,
      looks: looks.length,
      looks_per_minute: looks.length / minutes,
      looks_in_busiest_minute: busiest,
    },
    goals: [
      {
        goal: `a step waits less than ${ADDED_S_MAX} s between the provider's end and the next create, by the median`,
        measured: `${digits(median)} s`,
        met: median < ADDED_S_MAX,
      },
      {
        goal: `at most ${LOOKS_PER_MINUTE_MAX} looks in any minute`,
        measured: String(busiest),
        met: busiest <= LOOKS_PER_MINUTE_MAX,
      },
    ],
    notes: [
      `Seconds are those of the database's and the provider's clock, which run ${SPEED} times as fast as the machine's: work of the machine counts ${SPEED} times. The first turnarounds are not known yet.`,
    ],
  };
}

interface JournalEntry {
  readonly at: string;
  readonly path: string;
  readonly committed: string | null;
}

async function journal(stack: Stack, op: string): Promise<readonly JournalEntry[]> {
  const path = `/journal?limit=20000&op=${op}`;
  return (await control<{ entries: readonly JournalEntry[] }>(stack, 'GET', path)).entries;
}

/** Calls the control port of the simulated provider. */
async function control<T>(stack: Stack, method: string, path: string, body?: object): Promise<T> {
  const answer = await within(
    30_000,
    `${method} ${path}`,
    fetch(`${stack.simulatorControlUrl ?? ''}${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }),
  );
  if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${await answer.text()}`);
  return (await answer.json()) as T;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
