import type { Usage } from './usage.ts';

/** Sums of billed amounts. */
export interface BilledTotals extends Usage {
  readonly requests: number;
  readonly usd: number;
}

export interface Billing {
  /** Null for a direct message outside of batches. */
  readonly batch: { readonly id: string; readonly seq: number } | null;
  readonly customId: string | null;
  readonly contentHash: string;
  readonly usage: Usage;
  readonly usd: number;
}

/** Billing count and sum of one key. */
export interface BilledRow {
  times: number;
  usd: number;
  /** Sequence number of the batch that first billed the key; 0 for a direct message. */
  readonly first_batch_seq: number;
}

/** A key that was billed more than once. */
export interface RepeatedBilling {
  readonly by: 'content_hash' | 'logical_key';
  readonly key: string;
  times: number;
  readonly first_batch_seq: number;
  /** The later billings, at most eight. */
  readonly again: { batch_id: string | null; custom_id: string | null }[];
}

/** The provider's invoice: by batch, by request content, by custom id. */
export interface Ledger {
  bill(billing: Billing): void;
  batch(id: string): BilledTotals | undefined;
  byContentHash(hex: string): BilledRow | undefined;
  byLogicalKey(key: string): BilledRow | undefined;
  /** Sets the part of a custom id that names the logical request, for later billings. Default: the whole id. */
  setLogicalKey(pattern: RegExp | null): void;
  snapshot(): LedgerSnapshot;
}

/** The ledger as the control port shows it. */
export interface LedgerSnapshot {
  readonly totals: BilledTotals;
  readonly direct_messages: BilledTotals;
  readonly batches: Readonly<Record<string, BilledTotals>>;
  readonly distinct: { readonly content_hashes: number; readonly logical_keys: number };
  /** Number of keys billed more than once. */
  readonly repeated: { readonly content_hashes: number; readonly logical_keys: number };
  /** The first repeats, at most 10,000. */
  readonly repeats: readonly RepeatedBilling[];
}

const MAX_REPEATS = 10_000;

type MutableTotals = { -readonly [K in keyof BilledTotals]: BilledTotals[K] };

const noTotals = (): MutableTotals => ({
  requests: 0,
  usd: 0,
  input_tokens: 0,
  output_tokens: 0,
  cache_write_5m_tokens: 0,
  cache_write_1h_tokens: 0,
  cache_read_tokens: 0,
});

function addTo(totals: MutableTotals, { usage, usd }: Billing): void {
  totals.requests++;
  totals.usd += usd;
  totals.input_tokens += usage.input_tokens;
  totals.output_tokens += usage.output_tokens;
  totals.cache_write_5m_tokens += usage.cache_write_5m_tokens;
  totals.cache_write_1h_tokens += usage.cache_write_1h_tokens;
  totals.cache_read_tokens += usage.cache_read_tokens;
}

/** Returns the key of a custom id: the pattern's first group, its whole match, or the id itself. */
export function logicalKeyOf(customId: string, pattern: RegExp | null): string {
  const match = pattern?.exec(customId);
  return match?.[1] ?? match?.[0] ?? customId;
}

/** Counts one billing under `key` and returns its row. */
function count(rows: Map<string, BilledRow>, key: string, billing: Billing): BilledRow {
  let row = rows.get(key);
  if (row === undefined)
    rows.set(key, (row = { times: 0, usd: 0, first_batch_seq: billing.batch?.seq ?? 0 }));
  row.times++;
  row.usd += billing.usd;
  return row;
}

/** Creates an empty ledger. Its memory grows by about 350 bytes per distinct request. */
export function createLedger(): Ledger {
  const totals = noTotals();
  const direct = noTotals();
  const batches = new Map<string, MutableTotals>();
  const contents = new Map<string, BilledRow>();
  const logicals = new Map<string, BilledRow>();
  const repeats = new Map<string, RepeatedBilling>();
  const repeated = { content_hashes: 0, logical_keys: 0 };
  let logicalKey: RegExp | null = null;

  function note(by: RepeatedBilling['by'], key: string, row: BilledRow, billing: Billing): void {
    if (row.times === 1) return;
    if (row.times === 2) repeated[by === 'content_hash' ? 'content_hashes' : 'logical_keys']++;
    const id = `${by} ${key}`;
    let repeat = repeats.get(id);
    if (repeat === undefined) {
      if (repeats.size >= MAX_REPEATS) return;
      repeat = { by, key, times: row.times, first_batch_seq: row.first_batch_seq, again: [] };
      repeats.set(id, repeat);
    }
    repeat.times = row.times;
    if (repeat.again.length < 8)
      repeat.again.push({ batch_id: billing.batch?.id ?? null, custom_id: billing.customId });
  }

  return {
    bill(billing) {
      const { batch, customId, contentHash } = billing;
      addTo(totals, billing);
      if (batch === null) addTo(direct, billing);
      else {
        let own = batches.get(batch.id);
        if (own === undefined) batches.set(batch.id, (own = noTotals()));
        addTo(own, billing);
      }
      note('content_hash', contentHash, count(contents, contentHash, billing), billing);
      if (customId === null) return;
      const key = logicalKeyOf(customId, logicalKey);
      note('logical_key', key, count(logicals, key, billing), billing);
    },
    batch: (id) => batches.get(id),
    byContentHash: (hex) => contents.get(hex),
    byLogicalKey: (key) => logicals.get(key),
    setLogicalKey: (pattern) => {
      logicalKey = pattern;
    },
    snapshot: () => ({
      totals: { ...totals },
      direct_messages: { ...direct },
      batches: Object.fromEntries([...batches].map(([id, own]) => [id, { ...own }])),
      distinct: { content_hashes: contents.size, logical_keys: logicals.size },
      repeated: { ...repeated },
      repeats: [...repeats.values()],
    }),
  };
}
