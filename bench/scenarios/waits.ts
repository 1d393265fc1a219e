/**
 * Measures runs whose tool waits: their time from submission to end, and that of a quick run behind a batch of slow calls. All
 * processes are real, with one worker; the provider answers at once.
 */
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient, type Client } from '../../scripts/demo/client.ts';
import { startStack } from '../../scripts/stack/stack.ts';
import { removeDirectory } from '../directory.ts';
import { stoppedAtEnd } from '../ending.ts';
import { within } from '../measure/within.ts';
import { digits } from '../report/table.ts';
import { SHORT_WAITS } from '../workload.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const RUNS_DEFAULT = 500;
const WAIT_MS = 2_000;
const RUNS_S_MAX = 6;
const SLOW_CALLS = 600;
const SLOW_MS = 10_000;
const QUICK_S_MAX = 5;

interface Call {
  readonly tool: string;
  readonly args: object;
}

export async function waits(bench: Bench): Promise<ScenarioResult> {
  const { options } = bench;
  const runs = options.runs?.[0] ?? RUNS_DEFAULT;
  const dir = join(bench.dir, 'product');
  removeDirectory(dir);
  const stack = await startStack({
    dataDir: dir,
    workers: 1,
    port: 0,
    toolsDir: join(import.meta.dirname, '../tools'),
    simulatorLatency: 'fixed:0',
    workerEnv: { ...SHORT_WAITS, ...options.workerEnv },
  });
  const stop = stoppedAtEnd(async () => {
    await stack.stop();
    removeDirectory(dir);
  });
  try {
    const client = createClient(stack.apiUrl, stack.apiKey);
    const { id: agent } = await client.post<{ readonly id: string }>('/v1/agents/', {
      ...{ name: 'waits', model: 'anthropic/claude-haiku-4-5', include_base_tools: false },
      ...{ tools: ['wait', 'look_up'], memory_blocks: [] },
    });
    const quick: Call = { tool: 'look_up', args: { customer: 'c-1', question: 'what is new?' } };
    const measure = (name: string, times: number, call: Call): Promise<number> => {
      bench.say(`waits: ${name}`);
      return within(options.timeoutMs, name, timeOf(client, agent, times, call));
    };
    // The first calls start hosts and load modules.
    await measure('warm-up', 10, { tool: 'wait', args: { ms: 1 } });
    const runsS = await measure(`${runs} runs`, runs, { tool: 'wait', args: { ms: WAIT_MS } });
    const slow = measure(`${SLOW_CALLS} slow calls`, SLOW_CALLS, { tool: 'wait', args: { ms: SLOW_MS } });
    await within(options.timeoutMs, 'The slow calls', untilActing(stack.pool, SLOW_CALLS));
    const quickS = await measure('a quick run behind them', 1, quick);
    const slowS = await slow;
    return {
      title: 'Runs whose tool waits, with one worker',
      table: {
        head: ['runs', 'seconds'],
        rows: [
          [`${runs} with a tool of ${WAIT_MS / 1_000} s`, digits(runsS)],
          [`${SLOW_CALLS} with a tool of ${SLOW_MS / 1_000} s`, digits(slowS)],
          ['1 with a quick tool, behind those', digits(quickS)],
        ],
      },
      figures: { runs, runs_s: runsS, slow_s: slowS, quick_s: quickS },
      goals: [
        goalOf(`${runs} runs with a tool of ${WAIT_MS / 1_000} s`, runsS, RUNS_S_MAX),
        goalOf(`a quick run behind ${SLOW_CALLS} calls of ${SLOW_MS / 1_000} s`, quickS, QUICK_S_MAX),
      ],
      notes: [],
    };
  } finally {
    await stop();
  }
}

function goalOf(what: string, seconds: number, max: number): ScenarioResult['goals'][number] {
  return { goal: `${what} in at most ${max} s`, measured: `${digits(seconds)} s`, met: seconds <= max };
}

/** Submits runs of one call each and returns the seconds until all have ended. */
async function timeOf(client: Client, agent_id: string, times: number, call: Call): Promise<number> {
  const began = performance.now();
  const { id } = await client.post<{ readonly id: string }>('/v1/batches', {
    template: { agent_id, input: '{{ text }}' },
    inputs: Array.from({ length: times }, (_, place) => ({
      custom_id: `run-${place}`,
      variables: { text: `${place}\n${JSON.stringify(call)}` },
    })),
  });
  for (;;) {
    const { status } = await client.get<{ readonly status: string }>(`/v1/batches/${id}`);
    if (status === 'completed') return (performance.now() - began) / 1_000;
    await pause(50);
  }
}

/** Resolves when so many runs wait for their calls. */
async function untilActing(
  pool: { query<Row extends object>(text: string): Promise<{ rows: readonly Row[] }> },
  runs: number,
): Promise<void> {
  for (;;) {
    const { rows } = await pool.query<{ acting: number }>(
      `select count(*)::int as acting from run where state = 'acting'`,
    );
    if ((rows[0]?.acting ?? 0) >= runs) return;
    await pause(50);
  }
}
