import { isJsonObject } from '@nightshift/agent-core';
import type { RemoteBatch, RequestCounts } from './port.ts';

/**
 * Parses the API's batch object; null without a valid id, status, counts or creation time.
 * Timestamps have `Z` or an offset, and milliseconds or microseconds.
 */
export function parseRemoteBatch(value: unknown): RemoteBatch | null {
  if (!isJsonObject(value)) return null;
  const { id, processing_status } = value;
  const counts = parseCounts(value['request_counts']);
  const created_at = parseTime(value['created_at']);
  if (typeof id !== 'string' || id === '' || typeof processing_status !== 'string') return null;
  if (counts === null || created_at === null) return null;
  return {
    provider_id: id,
    processing_status:
      processing_status === 'ended' || processing_status === 'canceling' ? processing_status : 'in_progress',
    counts,
    request_count: counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired,
    created_at,
    expires_at: parseTime(value['expires_at']),
    ended_at: parseTime(value['ended_at']),
    archived_at: parseTime(value['archived_at']),
    has_results: typeof value['results_url'] === 'string' && value['results_url'] !== '',
  };
}

function parseCounts(value: unknown): RequestCounts | null {
  if (!isJsonObject(value)) return null;
  const count = (name: keyof RequestCounts): number => {
    const given = value[name] ?? 0;
    return typeof given === 'number' && Number.isSafeInteger(given) && given >= 0 ? given : Number.NaN;
  };
  const counts = {
    processing: count('processing'),
    succeeded: count('succeeded'),
    errored: count('errored'),
    canceled: count('canceled'),
    expired: count('expired'),
  };
  return Object.values(counts).some(Number.isNaN) ? null : counts;
}

function parseTime(value: unknown): Date | null {
  if (typeof value !== 'string') return null;
  const time = new Date(value);
  return Number.isNaN(time.getTime()) ? null : time;
}
