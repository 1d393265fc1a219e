import type { PrepareEngine } from './engine.ts';

/** The engines of the comparison. `runs_max`: larger sizes take hours and show nothing new. */
export const ENGINES = {
  nightshift: { load: async () => (await import('./product.ts')).prepareProduct, runs_max: 1_000_000 },
  'floor-full': { load: async () => (await import('./floor-full.ts')).prepareFloorFull, runs_max: 1_000_000 },
  bullmq: { load: async () => (await import('./bullmq.ts')).prepareBullmq, runs_max: 30_000 },
  'pgboss-batch': {
    load: async () => (await import('./pgboss-batch.ts')).preparePgBossBatch,
    runs_max: 100_000,
  },
} as const satisfies Record<
  string,
  { readonly load: () => Promise<PrepareEngine>; readonly runs_max: number }
>;

export type EngineName = keyof typeof ENGINES;

export function isEngineName(name: string): name is EngineName {
  return Object.hasOwn(ENGINES, name);
}
