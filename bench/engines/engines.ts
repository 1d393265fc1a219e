import type { PrepareEngine } from './engine.ts';

/** An engine of the comparison. Its modules are loaded in its own process alone. */
export interface EngineEntry {
  /** What it is, in one line. */
  readonly about: string;
  /** What the product does and it does not. */
  readonly leaves_out: string;
  readonly load: () => Promise<PrepareEngine>;
  /** Largest number of runs it is asked to do: beyond it the bench takes hours and shows nothing new. */
  readonly runs_max: number;
}

const FLOOR_LEAVES_OUT =
  'leases, fencing, retries, limits, definitions, argument validation, odd result lines, several batches, tallies, rows of tool calls';

export const ENGINES = {
  nightshift: {
    about:
      'the product: its worker processes, provider called in the process; its tool returns at once, so answer and result are one commit (ADR 0023)',
    leaves_out: '',
    load: async () => (await import('./product.ts')).prepareProduct,
    runs_max: 1_000_000,
  },
  'floor-full': {
    about:
      'a hand-written loop: bodies from history, tools in Piscina, answers durable before tools, one statement a thousand results',
    leaves_out: FLOOR_LEAVES_OUT,
    load: async () => (await import('./floor-full.ts')).prepareFloorFull,
    runs_max: 1_000_000,
  },
  bullmq: {
    about:
      'one BullMQ job a step (concurrency 50), rows one at a time through Kysely in one transaction a step',
    leaves_out: `request bodies, tool threads, two phases, ${FLOOR_LEAVES_OUT}`,
    load: async () => (await import('./bullmq.ts')).prepareBullmq,
    runs_max: 30_000,
  },
  'pgboss-batch': {
    about: 'pg-boss with 500 jobs a handler and one statement for them',
    leaves_out: `request bodies, tool threads, two phases, ${FLOOR_LEAVES_OUT}`,
    load: async () => (await import('./pgboss-batch.ts')).preparePgBossBatch,
    runs_max: 100_000,
  },
} as const satisfies Record<string, EngineEntry>;

export type EngineName = keyof typeof ENGINES;

export function isEngineName(name: string): name is EngineName {
  return Object.hasOwn(ENGINES, name);
}
