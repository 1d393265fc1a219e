import type { RunState, StopReason } from '@nightshift/agent-core';
import type { BatchOptions } from '../request.ts';

/** The definitions of a retry: those of the failed runs, or the agents as they are now. */
export type RetryDefinitions = 'same' | 'current';

/** A request to try runs of a batch again. An absent option is that of the batch; null is none. */
export interface RetryRequest extends BatchOptions {
  readonly states?: readonly RunState[] | null | undefined;
  readonly ended_reasons?: readonly StopReason[] | null | undefined;
  readonly error_group?: string | null | undefined;
  readonly run_ids?: readonly string[] | null | undefined;
  readonly definitions?: RetryDefinitions | null | undefined;
}

/** The source of a retry, stored with its batch. */
export interface RetrySource {
  readonly kind: 'retry';
  readonly definitions: RetryDefinitions;
  /** Handle that the batch gave all its runs; null: the agents' own. */
  readonly model: string | null;
  /** ISO time; the deadline of all its runs. */
  readonly deadline: string | null;
}

/** Tells whether a stored source is that of a retry. */
export function isRetrySource(source: unknown): source is RetrySource {
  return typeof source === 'object' && source !== null && 'kind' in source && source.kind === 'retry';
}
