/**
 * What the flows know of a provider. Implementations never throw for anything a provider or a network does before
 * a result stream has begun: every such end is a value that the caller must look at.
 */
import type { RefusalCause } from '@nightshift/agent-core';
import type { ProviderTime } from './provider-clock.ts';

/** How many requests of a batch stand where. Their sum is the number of requests that were accepted. */
export interface RequestCounts {
  readonly processing: number;
  readonly succeeded: number;
  readonly errored: number;
  readonly canceled: number;
  readonly expired: number;
}

/** A batch as the provider shows it. It carries nothing of ours: no name, no metadata, no request ids. */
export interface RemoteBatch {
  readonly provider_id: string;
  /** A status that is not known yet is read as `in_progress`: it is looked at again. */
  readonly processing_status: 'in_progress' | 'canceling' | 'ended';
  /** Not a measure of progress: all but `processing` may stay 0 until the whole batch has ended. */
  readonly counts: RequestCounts;
  /** Sum of all counts. */
  readonly request_count: number;
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly ended_at: Date | null;
  /** When the results became unavailable; null while they are not. */
  readonly archived_at: Date | null;
  /** True once the provider names a place for the results. The place itself is never followed. */
  readonly has_results: boolean;
}

/** The provider, or the way to it, did not answer usefully; ask again later. */
export interface Unavailable {
  readonly outcome: 'unavailable';
  /** For the log and the operator; holds no credential. */
  readonly reason: string;
  /** HTTP status, or null when there was none. */
  readonly status: number | null;
  /** What the provider asked us to wait, in milliseconds, at most an hour; null when it did not. */
  readonly retry_after_ms: number | null;
}

export type CreateOutcome =
  /** The provider has it. */
  | { readonly outcome: 'created'; readonly batch: RemoteBatch }
  /** The provider says that it has not taken it, and why. */
  | {
      readonly outcome: 'refused';
      readonly what: RefusalCause;
      readonly status: number;
      readonly message: string;
      readonly retry_after_ms: number | null;
    }
  /** The provider may or may not have it. Sending it again may pay twice. */
  | { readonly outcome: 'unknown'; readonly reason: string; readonly status: number | null };

export type RetrieveOutcome =
  | { readonly outcome: 'found'; readonly batch: RemoteBatch }
  /** Not final: providers have answered so for batches that existed, seconds to minutes after their creation. */
  | { readonly outcome: 'not_found' }
  | Unavailable;

export interface ListOutcome {
  /** Batches created at or after the asked time, newest first, each once. */
  readonly batches: readonly RemoteBatch[];
  /** True only if the listing reached the asked time or the provider's last page, and every entry was readable. */
  readonly complete: boolean;
  /** Why it stopped early, when the provider was the reason. */
  readonly unavailable: Unavailable | null;
  /** The provider's time when it answered first, as it said itself; null where it did not. */
  readonly now: Date | null;
}

export type ResultsOutcome =
  /**
   * The raw bytes of the result file, decompressed. Iterate it (even if only to leave at once): that closes the
   * connection. It throws {@link ResultsInterrupted} when the stream breaks, after all bytes that came before.
   * A stream that ends without error may still be short; only the set of ids it answered tells.
   */
  | { readonly outcome: 'open'; readonly chunks: AsyncIterable<Buffer> }
  /** Not ended yet, or ended and the file not there yet. */
  | { readonly outcome: 'not_ready' }
  /** The provider does not know the batch. As fleeting as in {@link RetrieveOutcome}. */
  | { readonly outcome: 'not_found' }
  /** The batch is known and its results are gone for good. */
  | { readonly outcome: 'archived'; readonly archived_at: Date }
  | Unavailable;

/** A result stream broke off. What was read before it stands; the rest is had by streaming again from the top. */
export class ResultsInterrupted extends Error {
  constructor(reason: string) {
    super(`The result stream broke off: ${reason}. Stream it again from the top.`);
    this.name = 'ResultsInterrupted';
  }
}

/** The slowest accepted rate of a result stream, on average over windows of `windowMs`; 0 accepts every rate. */
export interface MinimalRate {
  readonly bytesPerSecond: number;
  readonly windowMs: number;
}

export interface ProviderPort {
  /** Name as it stands before the slash of a model handle. */
  readonly provider: string;

  /** The provider's clock, told by every answer. */
  readonly clock: {
    /** The provider's time now; null while it has not told any. */
    read(): ProviderTime | null;
    /** Asks the provider for as little as possible, so that it tells the time. */
    refresh(): Promise<void>;
  };

  /**
   * Sends one create, once: exactly one POST, never repeated whatever happens to it.
   * `timeoutMs` bounds the whole exchange, upload and answer.
   */
  createBatch(
    body: Blob,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<CreateOutcome>;

  /** Batches created at or after `createdAfter`, other applications' included. At most `limitPages` (20) pages of 1,000. */
  listBatches(options: {
    readonly createdAfter: Date;
    readonly limitPages?: number;
    readonly signal?: AbortSignal;
  }): Promise<ListOutcome>;

  retrieveBatch(providerId: string, options?: { readonly signal?: AbortSignal }): Promise<RetrieveOutcome>;

  /** Asks for cancellation and answers with the batch as it then stands; one that had already ended is no error. */
  cancelBatch(providerId: string, options?: { readonly signal?: AbortSignal }): Promise<RetrieveOutcome>;

  /**
   * Opens the result file. A body that is silent for `idleTimeoutMs`, or comes slower than `rate` (default: any), is given up
   * with {@link ResultsInterrupted}.
   */
  streamResults(
    providerId: string,
    options: { readonly idleTimeoutMs: number; readonly rate?: MinimalRate; readonly signal?: AbortSignal },
  ): Promise<ResultsOutcome>;
}
