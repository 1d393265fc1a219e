/**
 * The provider port, as flows see it. Implementations do not throw for failures of the provider or the network: each
 * outcome is a value. Only an open result stream throws.
 */
import type { RefusalCause } from '@nightshift/agent-core';
import type { ProviderTime } from './provider-clock.ts';

/** Request counts of a provider batch by state. Their sum is the number of accepted requests. */
export interface RequestCounts {
  readonly processing: number;
  readonly succeeded: number;
  readonly errored: number;
  readonly canceled: number;
  readonly expired: number;
}

/** A provider batch as the provider shows it. It holds no name, metadata or request ids of ours. */
export interface RemoteBatch {
  readonly provider_id: string;
  /** An unknown status is read as `in_progress`, so that the batch is polled again. */
  readonly processing_status: 'in_progress' | 'canceling' | 'ended';
  /** No measure of progress: all counts but `processing` may stay 0 until the whole batch has ended. */
  readonly counts: RequestCounts;
  readonly request_count: number;
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly ended_at: Date | null;
  /** Time at which the results became unavailable; null while they are available. */
  readonly archived_at: Date | null;
  /** True once the provider names a results URL. The URL itself is never used. */
  readonly has_results: boolean;
}

/** The provider or the network gave no usable answer; the caller retries later. */
export interface Unavailable {
  readonly outcome: 'unavailable';
  /** For logs and operators; holds no credential. */
  readonly reason: string;
  /** HTTP status; null without a response. */
  readonly status: number | null;
  /** The wait that the provider asks for, at most an hour; null without one. Unit: ms. */
  readonly retry_after_ms: number | null;
}

export type CreateOutcome =
  /** The provider accepted the batch. */
  | { readonly outcome: 'created'; readonly batch: RemoteBatch }
  /** The provider did not accept the batch. */
  | {
      readonly outcome: 'refused';
      readonly what: RefusalCause;
      readonly status: number;
      readonly message: string;
      readonly retry_after_ms: number | null;
    }
  /** The provider may have accepted the batch. Sending it again may pay twice. */
  | { readonly outcome: 'unknown'; readonly reason: string; readonly status: number | null };

export type RetrieveOutcome =
  | { readonly outcome: 'found'; readonly batch: RemoteBatch }
  /** Not final: providers also answer 404 for existing batches, seconds to minutes after their creation. */
  | { readonly outcome: 'not_found' }
  | Unavailable;

export interface ListOutcome {
  /** Provider batches created at or after the given time, newest first, without duplicates. */
  readonly batches: readonly RemoteBatch[];
  /** True only if the listing reached the given time or the last page, and every entry was readable. */
  readonly complete: boolean;
  /** The failure that ended the listing early; null otherwise. */
  readonly unavailable: Unavailable | null;
  /** The provider's own time in its first answer; null without a `Date` header. */
  readonly now: Date | null;
}

export type ResultsOutcome =
  /**
   * The bytes of the result file, decompressed. The caller must iterate it, since only that closes the connection.
   * A stream that ends without error may still be incomplete; only the set of answered ids proves completeness.
   * Throws: {@link ResultsInterrupted} when the stream breaks, after all bytes that arrived.
   */
  | { readonly outcome: 'open'; readonly chunks: AsyncIterable<Buffer> }
  /** The batch has not ended, or its file is not ready. */
  | { readonly outcome: 'not_ready' }
  /** The provider does not find the batch. Not final, as in {@link RetrieveOutcome}. */
  | { readonly outcome: 'not_found' }
  /** The batch exists, and its results are deleted. */
  | { readonly outcome: 'archived'; readonly archived_at: Date }
  | Unavailable;

/** A result stream broke. The bytes before remain valid; reading again from the start gives the rest. */
export class ResultsInterrupted extends Error {
  constructor(reason: string) {
    super(`The result stream broke: ${reason}. Read it again from the start.`);
    this.name = 'ResultsInterrupted';
  }
}

/** Minimum rate of a result stream, averaged over windows of `windowMs`; 0 accepts every rate. */
export interface MinimalRate {
  readonly bytesPerSecond: number;
  readonly windowMs: number;
}

export interface ProviderPort {
  /** The name before the slash of a model handle. */
  readonly provider: string;

  /** The provider's clock, updated by every answer. */
  readonly clock: {
    /** Returns the provider's present time; null before the first answer. */
    read(): ProviderTime | null;
    /** Sends a minimal request to update the clock. */
    refresh(): Promise<void>;
  };

  /** Sends exactly one POST, which is never repeated. `timeoutMs` limits the whole exchange, upload and answer. */
  createBatch(
    body: Blob,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<CreateOutcome>;

  /**
   * Lists the batches of all applications created at or after `createdAfter`.
   * Default: at most 20 pages of 1,000.
   */
  listBatches(options: {
    readonly createdAfter: Date;
    readonly limitPages?: number;
    readonly signal?: AbortSignal;
  }): Promise<ListOutcome>;

  retrieveBatch(providerId: string, options?: { readonly signal?: AbortSignal }): Promise<RetrieveOutcome>;

  /** Requests cancellation and returns the batch after it; a batch that has ended is no error. */
  cancelBatch(providerId: string, options?: { readonly signal?: AbortSignal }): Promise<RetrieveOutcome>;

  /**
   * Opens the result file. The stream breaks with {@link ResultsInterrupted} when it is silent for `idleTimeoutMs` or slower
   * than `rate`.
   */
  streamResults(
    providerId: string,
    options: { readonly idleTimeoutMs: number; readonly rate?: MinimalRate; readonly signal?: AbortSignal },
  ): Promise<ResultsOutcome>;
}
