import type { Prefix } from './prefixes.ts';

/** A stored prefix: readable from its write until its time to live has passed since the last use. */
interface Entry {
  fromMs: number;
  untilMs: number;
  ttlMs: number;
}

interface Entries {
  get(key: number): Readonly<Entry> | undefined;
  /** Returns an entry that may be changed. */
  own(key: number): Entry | undefined;
  add(key: number, entry: Entry): unknown;
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

const isLive = (entry: Readonly<Entry> | undefined, atMs: number): entry is Readonly<Entry> =>
  entry !== undefined && entry.fromMs <= atMs && atMs < entry.untilMs;

/**
 * Stores a prefix, or joins its two lives. Requests of batches that overlap arrive here out of order; of two lives with a gap
 * between them the later one stays.
 */
function put(entries: Entries, key: number, fromMs: number, untilMs: number, ttlMs: number): void {
  const old = entries.own(key);
  if (old === undefined) {
    entries.add(key, { fromMs, untilMs, ttlMs });
  } else if (old.untilMs < fromMs) {
    old.fromMs = fromMs;
    old.untilMs = untilMs;
    old.ttlMs = ttlMs;
  } else if (untilMs >= old.fromMs) {
    old.fromMs = Math.min(old.fromMs, fromMs);
    old.untilMs = Math.max(old.untilMs, untilMs);
    old.ttlMs = Math.max(old.ttlMs, ttlMs);
  }
}

function useOf(entries: Entries, prefixes: readonly Prefix[], atMs: number, missed: boolean): number {
  const readAt = missed ? -1 : prefixes.findLastIndex(({ key }) => isLive(entries.get(key), atMs));
  const read = prefixes[readAt];
  const readTtlMs = read === undefined ? 0 : (entries.get(read.key)?.ttlMs ?? 0);
  for (const [index, { key, ttlMs: markTtlMs }] of prefixes.entries()) {
    if (markTtlMs === 0 && index !== readAt) continue;
    let ttlMs = markTtlMs;
    if (index <= readAt) {
      // A place within the read prefix costs no write: it lives no longer than the entry that was read.
      const old = entries.get(key);
      ttlMs = isLive(old, atMs) ? old.ttlMs : Math.min(markTtlMs, readTtlMs);
    }
    put(entries, key, atMs, atMs + ttlMs, ttlMs);
  }
  return read?.tokens ?? 0;
}

/** Creates an empty cache. `oldestUseMs`: earliest time of any later use; entries that expired before it are dropped. */
export function createPrefixCache(oldestUseMs: () => number): PrefixCache {
  const entries = new Map<number, Entry>();
  const all: Entries = {
    get: (key) => entries.get(key),
    own: (key) => entries.get(key),
    add: (key, entry) => entries.set(key, entry),
  };
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
      const read = useOf(all, prefixes, atMs, missed);
      sweep();
      return read;
    },
    open() {
      const own = new Map<number, Entry>();
      const layered: Entries = {
        get: (key) => own.get(key) ?? entries.get(key),
        own(key) {
          const shared = entries.get(key);
          if (shared !== undefined && !own.has(key)) own.set(key, { ...shared });
          return own.get(key);
        },
        add: (key, entry) => own.set(key, entry),
      };
      const before = last;
      const { promise, resolve } = Promise.withResolvers<void>();
      last = before.then(() => promise);
      return {
        turn: () => before,
        use: (prefixes, atMs, missed) => useOf(layered, prefixes, atMs, missed),
        commit() {
          for (const [key, { fromMs, untilMs, ttlMs }] of own) put(all, key, fromMs, untilMs, ttlMs);
          own.clear();
          sweep();
        },
        end: resolve,
      };
    },
    size: () => entries.size,
  };
}
