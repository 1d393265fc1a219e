import type { Hash64 } from './draws.ts';

/** What has been billed under one key. */
export interface BilledRow {
  readonly times: number;
  readonly tokens: number;
  readonly usd: number;
  /** The sequence number of the batch that billed it first; 0 for a direct message. */
  readonly first_batch_seq: number;
}

/** Sums by 64-bit key in typed arrays: 32 bytes per slot, so a million requests take about 64 MB. */
export interface BilledTable {
  readonly size: () => number;
  /** Adds one billing and returns the row as it was before, or undefined when the key is new. */
  add(key: Hash64, tokens: number, usd: number, batchSeq: number): BilledRow | undefined;
  get(key: Hash64): BilledRow | undefined;
}

const rowBytes = 32;

/** An empty table (open addressing, linear probing, at most two thirds full). */
export function createBilledTable(): BilledTable {
  let capacity = 1024;
  let size = 0;
  let words = new Uint32Array((capacity * rowBytes) / 4);
  let doubles = new Float64Array(words.buffer);

  // A row: words 0,1 key · 2 times · 3 first batch · doubles 2 tokens · 3 usd.
  function slotOf(high: number, low: number): number {
    let slot = low & (capacity - 1);
    for (;;) {
      const at = slot * 8;
      if (words[at + 2] === 0 || (words[at] === high && words[at + 1] === low)) return slot;
      slot = (slot + 1) & (capacity - 1);
    }
  }

  function rowAt(slot: number): BilledRow | undefined {
    const at = slot * 8;
    const times = words[at + 2] ?? 0;
    if (times === 0) return undefined;
    return {
      times,
      tokens: doubles[slot * 4 + 2] ?? 0,
      usd: doubles[slot * 4 + 3] ?? 0,
      first_batch_seq: words[at + 3] ?? 0,
    };
  }

  function grow(): void {
    const old = words;
    capacity *= 2;
    words = new Uint32Array((capacity * rowBytes) / 4);
    doubles = new Float64Array(words.buffer);
    for (let at = 0; at < old.length; at += 8) {
      if (old[at + 2] === 0) continue;
      words.set(old.subarray(at, at + 8), slotOf(old[at] ?? 0, old[at + 1] ?? 0) * 8);
    }
  }

  return {
    size: () => size,
    add(key, tokens, usd, batchSeq) {
      if (size * 3 >= capacity * 2) grow();
      const slot = slotOf(key.high, key.low);
      const before = rowAt(slot);
      const at = slot * 8;
      words[at] = key.high;
      words[at + 1] = key.low;
      words[at + 2] = (before?.times ?? 0) + 1;
      words[at + 3] = before?.first_batch_seq ?? batchSeq;
      doubles[slot * 4 + 2] = (before?.tokens ?? 0) + tokens;
      doubles[slot * 4 + 3] = (before?.usd ?? 0) + usd;
      if (before === undefined) size++;
      return before;
    },
    get: (key) => rowAt(slotOf(key.high, key.low)),
  };
}
