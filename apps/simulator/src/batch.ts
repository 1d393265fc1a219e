import type { CancelTask } from './clock.ts';

/** The five counts of a batch; their sum is always the number of its requests. */
export interface RequestCounts {
  processing: number;
  succeeded: number;
  errored: number;
  canceled: number;
  expired: number;
}

/** A request of a batch, and the bytes of the spooled body in which its params lie. */
export interface BatchItem {
  readonly customId: string;
  readonly offset: number;
  readonly length: number;
}

/** How a request ends. */
export type Fate = 'succeeded' | 'errored' | 'canceled' | 'expired';

/** A message batch as the simulator knows it. Times are milliseconds on its clock. */
export interface Batch {
  readonly id: string;
  /** From 1, in the order of creation, over all workspaces. */
  readonly seq: number;
  readonly workspace: string;
  readonly created_at_ms: number;
  readonly expires_at_ms: number;
  readonly count: number;
  /** The `anthropic-version` it was created with, by whose rules its requests are judged. */
  readonly version: string;
  readonly betas: readonly string[];
  readonly body_bytes: number;
  /** Null once the results are written, unless bodies are kept. */
  body_path: string | null;
  /** Null once the results are written. */
  items: readonly BatchItem[] | null;
  status: 'in_progress' | 'canceling' | 'ended';
  counts: RequestCounts;
  /** When the work would be done if nothing came between; Infinity when it never is. */
  ends_at_ms: number;
  cancel_initiated_at_ms: number | null;
  /** Time of its cancel at the console; null without a cancel. */
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

/** The wire shape of a batch: all ten members are always there. */
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

/** Batches by id and in the order of creation. Deleted ones stay as tombstones, so that cursors into the list work. */
export interface BatchStore {
  add(batch: Batch): void;
  get(id: string): Batch | undefined;
  /** Oldest first. */
  all(): readonly Batch[];
}

/** An empty store. */
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

/** No request done yet. */
export function countsAtStart(count: number): RequestCounts {
  return { processing: count, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
}
