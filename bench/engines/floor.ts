import pg from 'pg';
import { watchEventLoop } from '../measure/event-loop.ts';
import { countStatements } from '../measure/statements.ts';
import { openProvider } from '../provider.ts';
import { customIdOf, lookUp, STEPS } from '../workload.ts';
import type { PrepareEngine } from './engine.ts';
import {
  acceptItems,
  countFloorRows,
  endProviderBatch,
  openFloorPool,
  writeChunk,
  writeProviderBatch,
} from './floor-store.ts';
import { eachInFlight, parseLine, textChunks } from './result-lines.ts';

/** Requests of one provider batch: what the product sends by default. */
export const REQUESTS_MAX = 10_000;
export const CHUNK_LINES = 1_000;
export const CHUNKS_IN_FLIGHT = 2;

/**
 * The least that must be done: every durable row, one statement a thousand results, two under way. Tools run inline, no
 * request body is built, nothing is leased, locked or retried.
 */
export const prepareFloor: PrepareEngine = async ({ url, dir, runs, scenario }) => {
  const counts = { statements: 0, transactions: 0 };
  countStatements(pg, counts);
  const provider = openProvider({ dir, scenario });
  const pool = await openFloorPool(url, CHUNKS_IN_FLIGHT);
  const loop = watchEventLoop();
  counts.statements = counts.transactions = 0;
  return {
    accept: () => acceptItems(pool, runs),
    async run() {
      for (let step = 1; step <= STEPS; step++) {
        for (let from = 0; from < runs; from += REQUESTS_MAX) {
          const size = Math.min(REQUESTS_MAX, runs - from);
          const id = provider.createBare(
            Array.from({ length: size }, (_, index) => customIdOf(from + index, step)),
          );
          await writeProviderBatch(pool, id, size);
          await eachInFlight(
            textChunks(provider.results(id), CHUNK_LINES),
            CHUNKS_IN_FLIGHT,
            async (texts) => {
              const lines = texts.map((text) => {
                const line = parseLine(text);
                return { ...line, result: line.call === null ? null : lookUp(line.call.input) };
              });
              await writeChunk(pool, id, lines);
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
    close: () => pool.end(),
  };
};
