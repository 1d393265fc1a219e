import type { NewRun } from '@nightshift/db';
import type { BatchOptions, BatchRequest, FleetRequest, RewriteRequest, RunsRequest } from './request.ts';
import { requestedRuns } from './requested-runs.ts';

/** A batch body with its runs, or with the source that `accept-batch` makes them of. */
export type PreparedBatch = { readonly options: BatchOptions } & (
  { readonly runs: readonly NewRun[]; readonly shared_path: string | null } | { readonly source: BatchSource }
);

/** The part of a body that the runs of a fleet are made of; stored with the batch. */
export type BatchSource = FleetRequest | RewriteRequest;

/**
 * Prepares a batch outside any transaction: fills its template, checks its schemas.
 * `hold` gets the bytes of each filled template and may throw to end the work.
 * Throws: `validation_failed`, `invalid_argument`, `payload_too_large`.
 */
export async function prepareBatch(
  body: BatchRequest,
  hold: (bytes: number) => void,
): Promise<PreparedBatch> {
  if ('agents' in body) return { options: body, source: body };
  const runs = await requestedRuns(body satisfies RunsRequest, hold);
  return { options: body, runs, shared_path: body.template == null ? null : '/template' };
}
