import {
  applicableWork,
  definitionKey,
  type ApplicableWork,
  type WorkSample,
  type WorkStatistics,
} from '@nightshift/agent-core';
import { commitWorkSamples, readWorkStatistics, type Database } from '@nightshift/db';
import type { CachedDefinition } from '@nightshift/intake';

/** Samples kept before a flush within a pass. */
const SAMPLES_MAX = 5_000;

/** Statistics of work: samples of this worker on their way to the database, and a cache of rows read. */
export interface WorkBook {
  /** Keeps samples until the next {@link flush}; they are lost with the process. */
  record(samples: readonly WorkSample[]): void;
  /** Whether enough samples are kept for a flush before the end of a pass. */
  isFull(): boolean;
  /** Writes the kept samples in one statement. An error drops them: estimates do without. */
  flush(db: Database): Promise<void>;
  /** Returns the statistics of these keys, read or cached; null without answers. */
  read(db: Database, keys: readonly string[]): Promise<ReadonlyMap<string, WorkStatistics | null>>;
}

interface Entry {
  readonly statistics: WorkStatistics | null;
  readonly read_at: number;
}

/** Creates a book that caches rows for `maxAgeMs`, at most `entriesMax`; the oldest are evicted first. */
export function createWorkBook({
  maxAgeMs = 30_000,
  entriesMax = 4_000,
  now = () => performance.now(),
}: {
  readonly maxAgeMs?: number;
  readonly entriesMax?: number;
  readonly now?: () => number;
} = {}): WorkBook {
  let kept: WorkSample[] = [];
  const cached = new Map<string, Entry>();
  return {
    record(samples) {
      for (const sample of samples) kept.push(sample);
    },
    isFull: () => kept.length >= SAMPLES_MAX,
    async flush(db) {
      if (kept.length === 0) return;
      const samples = kept;
      kept = [];
      await commitWorkSamples(db, samples).catch(() => undefined);
      for (const { keys } of samples) for (const key of keys) cached.delete(key);
    },
    async read(db, keys) {
      const wanted = [...new Set(keys)];
      const oldest = now() - maxAgeMs;
      const missing = wanted.filter((key) => (cached.get(key)?.read_at ?? -Infinity) <= oldest);
      const found = await readWorkStatistics(db, missing);
      const result = new Map<string, WorkStatistics | null>();
      for (const key of missing) {
        const entry = { statistics: found.get(key) ?? null, read_at: now() };
        cached.delete(key);
        cached.set(key, entry);
        result.set(key, entry.statistics);
      }
      for (const key of wanted) if (!result.has(key)) result.set(key, cached.get(key)?.statistics ?? null);
      for (const key of cached.keys()) {
        if (cached.size <= entriesMax) break;
        cached.delete(key);
      }
      return result;
    },
  };
}

/** Returns the statistics of definitions by their ids, with at most one read for all of them. */
export async function workStatisticsOf(
  { work }: { readonly work: WorkBook },
  db: Database,
  definitions: Iterable<CachedDefinition>,
): Promise<ReadonlyMap<string, ApplicableWork>> {
  const all = [...definitions];
  const keys = all.flatMap(({ definition, work_class }) => [definitionKey(definition.id), work_class]);
  const found = await work.read(db, keys);
  return new Map(
    all.map(({ definition, work_class }): [string, ApplicableWork] => {
      const own = found.get(definitionKey(definition.id)) ?? null;
      return [definition.id, applicableWork(own, found.get(work_class) ?? null)];
    }),
  );
}
