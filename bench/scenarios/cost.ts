/** Compares the bills of tool loops: the product's batches, the product of an earlier commit, and realtime loops. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startSimulator, type Simulator } from '../../apps/simulator/src/index.ts';
import { CELLS, SYSTEM_SHARE, type Cell } from '../cost/conversation.ts';
import { costGoals, costTable, readCosts, type CellCost } from '../cost/judge.ts';
import { letPass, PROVIDER_BATCH_MS, RUN_OF_CUSTOM_ID, startProduct } from '../cost/night.ts';
import { realtimeUsd } from '../cost/realtime.ts';
import { stoppedAtEnd } from '../ending.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const RUNS_DEFAULT = 20;
/** Fractions of hits; the first is judged. */
const HIT_RATES = [0.9, 0.3];
/** Runs of each cell in the night before, from which the product learns how its runs behave. */
const RUNS_BEFORE = 4;
/** Longer than any cache entry lives. */
const PAUSE_MS = 3 * 3_600_000;

export async function cost(bench: Bench): Promise<ScenarioResult> {
  const { options } = bench;
  const runs = options.runs?.[0] ?? RUNS_DEFAULT;
  // Read first: an error must not come after minutes of work.
  const before = options.costBefore === null ? [] : readCosts(readFileSync(options.costBefore, 'utf8'));
  const simulator = await startSimulator({
    clock: 'virtual',
    dataDir: join(bench.dir, 'cost-provider'),
    settings: { latency: `fixed:${PROVIDER_BATCH_MS}`, logical_key: RUN_OF_CUSTOM_ID },
  });
  const close = stoppedAtEnd(() => simulator.close());
  try {
    const costs = await measure(bench, simulator, runs);
    const figures = { runs, cells: costs };
    if (options.out !== null)
      writeFileSync(options.out, `${JSON.stringify({ bench: 'cost', ...figures })}\n`);
    return {
      title: `Dollars of a run, of ${runs} runs each, by the simulator's ledger`,
      table: costTable(costs, before),
      figures,
      goals: costGoals(
        costs.filter(({ hit_rate }) => hit_rate === HIT_RATES[0]),
        before,
      ),
      notes: [
        `Provider batches of ${PROVIDER_BATCH_MS / 60_000} minutes; steps of realtime loops every 5 seconds; ${SYSTEM_SHARE * 100} % of the prompt is shared by all runs of a line, the rest is memory.`,
        'Realtime is at list price: with marks of five minutes at the end of the system prompt and of the messages, and without marks.',
        ...(before.length === 0
          ? ['Without --cost-before there is no comparison with an earlier commit.']
          : []),
      ],
    };
  } finally {
    await close();
  }
}

async function measure(bench: Bench, simulator: Simulator, runs: number): Promise<readonly CellCost[]> {
  const plain: number[] = [];
  bench.say('cost: realtime loops without caching');
  for (const cell of CELLS) plain.push(await realtimeUsd(simulator, cell, 1, false));
  const cached: number[][] = [];
  for (const hitRate of HIT_RATES) {
    bench.say(`cost: realtime loops with caching, ${hitRate * 100} % hits`);
    await prepare(simulator, hitRate);
    const found: number[] = [];
    for (const cell of CELLS) found.push(await realtimeUsd(simulator, cell, runs, true));
    cached.push(found);
  }
  simulator.control.setClockMode('real');
  const product = await startProduct(bench, simulator);
  try {
    const costs: CellCost[] = [];
    for (const [at, hitRate] of HIT_RATES.entries()) {
      bench.say(`cost: the product, ${hitRate * 100} % hits`);
      await prepare(simulator, hitRate);
      await product.night(CELLS, RUNS_BEFORE);
      await letPass(simulator, PAUSE_MS);
      const usd = await product.night(CELLS, runs);
      costs.push(...CELLS.map((cell, place) => costOf(cell, hitRate, usd, cached[at] ?? [], plain, place)));
    }
    return costs;
  } finally {
    await product.stop();
  }
}

/** Lets all cache entries expire and sets the fraction of hits. */
async function prepare(simulator: Simulator, hitRate: number): Promise<void> {
  await letPass(simulator, PAUSE_MS);
  simulator.control.configure({ cache_miss: 1 - hitRate });
}

function costOf(
  cell: Cell,
  hit_rate: number,
  usd: readonly number[],
  cached: readonly number[],
  plain: readonly number[],
  place: number,
): CellCost {
  return {
    ...cell,
    hit_rate,
    batch_usd: usd[place] ?? Number.NaN,
    realtime_cached_usd: cached[place] ?? Number.NaN,
    realtime_plain_usd: plain[place] ?? Number.NaN,
  };
}
