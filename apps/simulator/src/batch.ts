import type { CancelTask } from './clock.ts';

/** Request counts of a batch by state; their sum is the number of its requests. */
export interface RequestCounts {
  processing: number;
  succeeded: number;
  errored: number;
  canceled: number;
  expired: number;
}

/** A request of a batch, and the position of its params in the spooled body. */
export interface BatchItem {
  readonly customId: string;
  readonly offset: number;
  readonly length: number;
}

export type Fate = 'succeeded' | 'errored' | 'canceled' | 'expired';

/** A message batch. Times are ms of the simulator's clock. */
export interface Batch {
  readonly id: string;
  /** From 1 in the order of creation, across all workspaces. */
  readonly seq: number;
  readonly workspace: string;
  readonly created_at_ms: number;
  readonly expires_at_ms: number;
  readonly count: number;
  /** The `anthropic-version` of its create, whose rules apply to its requests. */
  readonly version: string;
  readonly betas: readonly string[];
  readonly body_bytes: number;
  /** Null after the results are written, unless bodies are kept. */
  body_path: string | null;
  /** Null after the results are written. */
  items: readonly BatchItem[] | null;
  status: 'in_progress' | 'canceling' | 'ended';
  counts: RequestCounts;
  /** Time at which all requests would be done without interruption; Infinity for a batch that never ends. */
  ends_at_ms: number;
  cancel_initiated_at_ms: number | null;
  /** Time of a cancel at the console; null without one. */
  console_cancel_at_ms: number | null;
  ended_at_ms: number | null;
  archived_at_ms: number | null;
  deleted_at_ms: number | null;
  results_path: string | null;
  results_bytes: number;
  timers: CancelTask[];
  /** Set while the results are being written. */
  ending: Promise<void> | null;
}

/** The wire shape of a batch, always with all ten members. */
export interface WireBatch {
  id: string;
  type: 'message_batch';
  processing_status: string;
  request_counts: RequestCounts;
  created_at: string;
  expires_at: string;
  ended_at: string | null;
  cancel_initiated_at: string | null;
  archived_at: string | null;
  results_url: string | null;
}

/** Batches by id and in the order of creation. Deleted batches stay as tombstones for list cursors. */
export interface BatchStore {
  add(batch: Batch): void;
  get(id: string): Batch | undefined;
  /** Oldest first. */
  all(): readonly Batch[];
}

export function createBatchStore(): BatchStore {
  const batches: Batch[] = [];
  const byId = new Map<string, Batch>();
  return {
    add: (batch) => {
      batches.push(batch);
      byId.set(batch.id, batch);
    },
    get: (id) => byId.get(id),
    all: () => batches,
  };
}

/** Returns the counts of a new batch. */
export function countsAtStart(count: number): RequestCounts {
  return { processing: count, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
}
