import pg from 'pg';
import { Piscina } from 'piscina';
import { watchEventLoop } from '../measure/event-loop.ts';
import { countStatements } from '../measure/statements.ts';
import { openProvider } from '../provider.ts';
import { description, parameters } from '../tools/look_up.ts';
import { customIdOf, MODEL, STEPS, SYSTEM_PROMPT } from '../workload.ts';
import type { PrepareEngine } from './engine.ts';
import {
  acceptItems,
  countFloorRows,
  endProviderBatch,
  openFloorPool,
  readHistories,
  REQUESTS_MAX,
  toolMessage,
  writeAnswers,
  writeProviderBatch,
  writeToolResults,
  type FloorLine,
} from './floor-store.ts';
import { eachInFlight, parseLine, textChunks } from './result-lines.ts';

const CHUNK_LINES = 1_000;
const CHUNKS_IN_FLIGHT = 2;
const HISTORIES_PER_PAGE = 500;
const CALLS_PER_TASK = 200;
const THREADS = 2;

/**
 * A hand-written loop with what no engine of this kind can leave out: request bodies built from the history in the
 * database and streamed, tools in Piscina threads, answers durable before their tools run. The measure of all other lines.
 */
export const prepareFloorFull: PrepareEngine = async ({ url, dir, runs, scenario }) => {
  const counts = { statements: 0, transactions: 0 };
  countStatements(pg, counts);
  const provider = openProvider({ dir, scenario });
  const pool = await openFloorPool(url, CHUNKS_IN_FLIGHT);
  const threads = new Piscina<readonly Record<string, unknown>[], readonly string[]>({
    filename: new URL('tool-thread.ts', import.meta.url).href,
    name: 'runCalls',
    minThreads: THREADS,
    maxThreads: THREADS,
    idleTimeout: 60_000,
    concurrentTasksPerWorker: 4,
  });
  // The pool gives a task to an idle thread first. As the product's, they are up before anything is measured.
  await Promise.all(Array.from({ length: THREADS }, () => threads.run([])));
  const loop = watchEventLoop();
  counts.statements = counts.transactions = 0;

  const head = `","params":{"model":"${MODEL}","max_tokens":1024,"system":[${JSON.stringify({ type: 'text', text: SYSTEM_PROMPT, cache_control: { type: 'ephemeral', ttl: '1h' } })}],"tools":${JSON.stringify([{ name: 'look_up', description, input_schema: parameters }])},"messages":`;
  async function* body(from: number, to: number, step: number): AsyncGenerator<string, void, undefined> {
    yield '{"requests":[';
    for (let page = from; page < to; page += HISTORIES_PER_PAGE) {
      const histories = await readHistories(pool, page, Math.min(page + HISTORIES_PER_PAGE, to));
      const requests = histories.map(
        ({ id, messages }) => `{"custom_id":"${customIdOf(id, step)}${head}${messages}}}`,
      );
      yield `${page === from ? '' : ','}${requests.join(',')}`;
    }
    yield ']}';
  }

  async function runTools(lines: readonly FloorLine[]): Promise<void> {
    const calls = lines.flatMap((line) => (line.call === null ? [] : [{ ...line, call: line.call }]));
    if (calls.length === 0) return;
    const tasks: Promise<readonly string[]>[] = [];
    for (let at = 0; at < calls.length; at += CALLS_PER_TASK) {
      tasks.push(threads.run(calls.slice(at, at + CALLS_PER_TASK).map(({ call }) => call.input)));
    }
    const results = (await Promise.all(tasks)).flat();
    await writeToolResults(
      pool,
      calls.map(({ item, step, call }, index) => ({
        item,
        step,
        message: toolMessage(call, results[index] ?? ''),
      })),
    );
  }

  return {
    accept: () => acceptItems(pool, runs),
    async run() {
      for (let step = 1; step <= STEPS; step++) {
        for (let from = 0; from < runs; from += REQUESTS_MAX) {
          const to = Math.min(from + REQUESTS_MAX, runs);
          const id = await provider.createFrom(body(from, to, step));
          await writeProviderBatch(pool, id, to - from);
          await eachInFlight(
            textChunks(provider.results(id), CHUNK_LINES),
            CHUNKS_IN_FLIGHT,
            async (texts) => {
              const lines = texts.map(parseLine);
              await writeAnswers(pool, id, lines);
              await runTools(lines);
            },
          );
          await endProviderBatch(pool, id);
        }
      }
    },
    figures: () => ({
      provider_cpu_ms: provider.counts.cpu_ms,
      provider_calls: provider.counts.calls,
      body_bytes: provider.counts.body_bytes,
      counts,
      loop: loop(),
    }),
    count: () => countFloorRows(pool),
    async close() {
      await threads.destroy();
      await pool.end();
    },
  };
};
