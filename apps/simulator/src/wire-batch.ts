import type { Batch, RequestCounts, WireBatch } from './batch.ts';
import { drawFrom } from './draws.ts';
import type { Settings } from './settings.ts';

/** Formats a time like the provider: microseconds and `Z`, or one of its other observed formats. */
export function timestamp(ms: number, settings: Settings, micros = 0): string {
  const iso = new Date(ms + settings.timestamps.skew_ms).toISOString();
  if (settings.timestamps.format === 'whole_seconds') return `${iso.slice(0, 19)}Z`;
  const precise = iso.slice(0, 23) + String(micros).padStart(3, '0');
  return settings.timestamps.format === 'offset' ? `${precise}+00:00` : `${precise}Z`;
}

function shownCounts(batch: Batch, settings: Settings, nowMs: number): RequestCounts {
  const ended = batch.status === 'ended';
  const none = { processing: batch.count, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
  if (settings.counts === 'frozen') return none;
  if (ended) {
    const lagging =
      settings.counts === 'lagging' && nowMs < (batch.ended_at_ms ?? 0) + settings.counts_lag_ms;
    return lagging ? none : { ...batch.counts };
  }
  if (settings.counts !== 'progressive' || batch.ends_at_ms === Number.POSITIVE_INFINITY) return none;
  const done = (nowMs - batch.created_at_ms) / Math.max(1, batch.ends_at_ms - batch.created_at_ms);
  const succeeded = Math.floor(batch.count * Math.min(0.99, Math.max(0, done)));
  return { ...none, processing: batch.count - succeeded, succeeded };
}

/** Converts a batch to its wire shape at `nowMs`; `origin` is the base of its results URL. */
export function wireBatch(batch: Batch, settings: Settings, nowMs: number, origin: string): WireBatch {
  const micros = Math.floor(drawFrom('micros', batch.id) * 1000);
  const at = (ms: number | null): string | null => (ms === null ? null : timestamp(ms, settings, micros));
  const hasResults = batch.status === 'ended' && batch.archived_at_ms === null;
  return {
    id: batch.id,
    type: 'message_batch',
    processing_status: batch.status,
    request_counts: shownCounts(batch, settings, nowMs),
    created_at: timestamp(batch.created_at_ms, settings, micros),
    expires_at: timestamp(batch.expires_at_ms, settings, micros),
    ended_at: at(batch.ended_at_ms),
    cancel_initiated_at: at(batch.cancel_initiated_at_ms),
    archived_at: at(batch.archived_at_ms),
    results_url: hasResults ? `${origin}/v1/messages/batches/${batch.id}/results` : null,
  };
}
