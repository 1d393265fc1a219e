import type { Batch } from '@nightshift/client';

/** States that batches can be filtered by. */
export const BATCH_STATES = [
  'receiving',
  'running',
  'paused',
  'cancelling',
  'completed',
  'cancelled',
  'failed',
] as const satisfies readonly Batch['state'][];

/** Filters of the list of batches, as in the address and in the API. */
export interface BatchFilters {
  readonly state?: Batch['state'] | undefined;
  readonly name?: string | undefined;
  readonly tag?: string | undefined;
  readonly schedule_id?: string | undefined;
  readonly retry_of?: string | undefined;
}

/** Reads the filters of an address. Others stay: the API says that it does not know them. */
export function readBatchFilters(search: Readonly<Record<string, unknown>>): BatchFilters {
  return search;
}
