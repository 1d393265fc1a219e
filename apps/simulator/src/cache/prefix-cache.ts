import type { Prefix } from './prefixes.ts';

/** A stored prefix: readable from its write until its time to live has passed since the last use. */
interface Entry {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly ttlMs: number;
}

interface Entries {
  get(key: number): Entry | undefined;
  set(key: number, entry: Entry): unknown;
}

/** The uses of the cache by one batch, which take effect together. */
export interface CacheSession {
  /**
   * Resolves when the sessions opened before have ended. Batches that end at the same time use the cache in the order of
   * their ends, however long the writing of their results takes.
   */
  turn(): Promise<void>;
  /** Like {@link PrefixCache.use}, with effects only on this session until its commit. */
  use(prefixes: readonly Prefix[], atMs: number, missed: boolean): number;
  commit(): void;
  /** Lets the next session use the cache. Without a commit, this session's uses are forgotten. */
  end(): void;
}

/** The provider's prompt cache. It holds hashes, no prompts. */
export interface PrefixCache {
  /**
   * Reads the longest stored prefix and stores the marked ones. `missed`: the request reads nothing and stores all.
   * Returns the tokens that were read.
   */
  use(prefixes: readonly Prefix[], atMs: number, missed: boolean): number;
  open(): CacheSession;
  /** Number of stored prefixes. */
  size(): number;
}

/** Entries below which the cache does not look for expired ones. */
const SWEEP_MIN = 4_096;

const isLive = (entry: Entry | undefined, atMs: number): entry is Entry =>
  entry !== undefined && entry.fromMs <= atMs && atMs < entry.untilMs;

/**
 * Stores a prefix, or joins its two lives. Requests of batches that overlap arrive here out of order; of two lives with a gap
 * between them the later one stays.
 */
function put(entries: Entries, key: number, fresh: Entry): void {
  const old = entries.get(key);
  if (old === undefined || old.untilMs < fresh.fromMs) entries.set(key, fresh);
  else if (fresh.untilMs >= old.fromMs) {
    entries.set(key, {
      fromMs: Math.min(old.fromMs, fresh.fromMs),
      untilMs: Math.max(old.untilMs, fresh.untilMs),
      ttlMs: Math.max(old.ttlMs, fresh.ttlMs),
    });
  }
}

function useOf(entries: Entries, prefixes: readonly Prefix[], atMs: number, missed: boolean): number {
  const readAt = missed ? -1 : prefixes.findLastIndex(({ key }) => isLive(entries.get(key), atMs));
  const read = prefixes[readAt];
  const stored = read === undefined ? undefined : entries.get(read.key);
  for (const [index, { key, ttlMs: ofMark }] of prefixes.entries()) {
    if (ofMark === 0 && index !== readAt) continue;
    // A place that was read costs no write: it lives no longer than the entry that it was read from.
    const old = entries.get(key);
    const own = isLive(old, atMs) ? old.ttlMs : Math.min(ofMark, stored?.ttlMs ?? ofMark);
    const ttlMs = index <= readAt ? own : ofMark;
    put(entries, key, { fromMs: atMs, untilMs: atMs + ttlMs, ttlMs });
  }
  return read?.tokens ?? 0;
}

/** Creates an empty cache. `oldestUseMs`: earliest time of any later use; entries that expired before it are dropped. */
export function createPrefixCache(oldestUseMs: () => number): PrefixCache {
  const entries = new Map<number, Entry>();
  let sweepAt = SWEEP_MIN;
  let last: Promise<void> = Promise.resolve();

  function sweep(): void {
    if (entries.size < sweepAt) return;
    const oldestMs = oldestUseMs();
    for (const [key, { untilMs }] of entries) if (untilMs <= oldestMs) entries.delete(key);
    sweepAt = Math.max(SWEEP_MIN, 2 * entries.size);
  }

  return {
    use(prefixes, atMs, missed) {
      const read = useOf(entries, prefixes, atMs, missed);
      sweep();
      return read;
    },
    open() {
      const own = new Map<number, Entry>();
      const layered: Entries = {
        get: (key) => own.get(key) ?? entries.get(key),
        set: (key, entry) => own.set(key, entry),
      };
      const before = last;
      const { promise, resolve } = Promise.withResolvers<void>();
      last = before.then(() => promise);
      return {
        turn: () => before,
        use: (prefixes, atMs, missed) => useOf(layered, prefixes, atMs, missed),
        commit() {
          for (const [key, entry] of own) put(entries, key, entry);
          own.clear();
          sweep();
        },
        end: resolve,
      };
    },
    size: () => entries.size,
  };
}
