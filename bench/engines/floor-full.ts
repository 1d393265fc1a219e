import { Piscina } from 'piscina';
import { description, parameters } from '../tools/look_up.ts';
import { customIdOf, MODEL, SYSTEM_PROMPT } from '../workload.ts';
import type { PrepareEngine } from './engine.ts';
import {
  acceptItems,
  countFloorRows,
  endProviderBatch,
  openFloorPool,
  readHistories,
  toolMessage,
  writeAnswers,
  writeProviderBatch,
  writeToolResults,
  type FloorLine,
} from './floor-store.ts';
import { eachProviderBatch, openOwnWork } from './own-work.ts';
import { eachInFlight, parseLine, textChunks } from './result-lines.ts';

const CHUNK_LINES = 1_000;
const CHUNKS_IN_FLIGHT = 2;
const HISTORIES_PER_PAGE = 500;
const CALLS_PER_TASK = 200;
const THREADS = 2;

/**
 * Runs a hand-written loop as the floor of the comparison, with the work that no engine can leave out.
 * Request bodies are built from the history in the database and streamed, tools run in Piscina threads, and
 * answers are durable before their tools run.
 */
export const prepareFloorFull: PrepareEngine = async (context) => {
  const { url, runs } = context;
  const own = openOwnWork(context);
  const { provider } = own;
  const pool = await openFloorPool(url, CHUNKS_IN_FLIGHT);
  const threads = new Piscina<readonly Record<string, unknown>[], readonly string[]>({
    filename: new URL('tool-thread.ts', import.meta.url).href,
    name: 'runCalls',
    minThreads: THREADS,
    maxThreads: THREADS,
    idleTimeout: 60_000,
    concurrentTasksPerWorker: 4,
  });
  // Piscina prefers idle threads: all are started before the measurement, as in the product.
  await Promise.all(Array.from({ length: THREADS }, () => threads.run([])));
  own.begin();

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
    run: () =>
      eachProviderBatch(runs, async (from, to, step) => {
        const id = await provider.createFrom(body(from, to, step));
        await writeProviderBatch(pool, id, to - from);
        await eachInFlight(textChunks(provider.results(id), CHUNK_LINES), CHUNKS_IN_FLIGHT, async (texts) => {
          const lines = texts.map(parseLine);
          await writeAnswers(pool, id, lines);
          await runTools(lines);
        });
        await endProviderBatch(pool, id);
      }),
    figures: own.figures,
    count: () => countFloorRows(pool),
    async close() {
      await threads.destroy();
      await pool.end();
    },
  };
};
