import { judgeClockOffset, type ClockOffset, type ClockVerdict } from '@nightshift/agent-core';
import { commitClockOffset, readNow } from '@nightshift/db';
import type { FlowDeps } from './deps.ts';

/** Milliseconds for which a provider's time is trusted: clocks drift, machines sleep. */
const FRESH_MS = 600_000;

/** Returns the provider's current time; null if its last time is too old. */
export function providerNow({ provider }: Pick<FlowDeps, 'provider'>): Date | null {
  const time = provider.clock.read();
  return time === null || time.age_ms > FRESH_MS ? null : new Date(time.now_ms);
}

/** Returns the milliseconds since a batch was sent, by the provider's clock; null if unknown. */
export function sentMsAgo(
  deps: Pick<FlowDeps, 'provider'>,
  { provider_sent_at }: { readonly provider_sent_at: Date | null },
): number | null {
  const now = providerNow(deps);
  return now === null || provider_sent_at === null ? null : now.getTime() - provider_sent_at.getTime();
}

/** Asks the provider for its time if the last is too old. Does not retry if it gives none. */
export async function refreshProviderTime(deps: FlowDeps): Promise<void> {
  if (providerNow(deps) === null) await deps.provider.clock.refresh();
}

/** A measured offset and its verdict. `is_news`: it was stored by this measurement. */
export interface MeasuredOffset extends ClockOffset {
  readonly verdict: ClockVerdict;
  readonly is_news: boolean;
}

/** Measures and stores the offset of the provider's clock from the database's. Null if the provider's time is unknown. */
export async function measureOffset(deps: FlowDeps): Promise<MeasuredOffset | null> {
  const { db, provider, settings } = deps;
  const begunAt = performance.now();
  const now = await readNow(db);
  const halfMs = Math.max(0, performance.now() - begunAt) / 2;
  const time = provider.clock.read();
  if (time === null || time.age_ms > FRESH_MS) return null;
  const offset: ClockOffset = {
    offset_ms: Math.round(time.now_ms - halfMs - now.getTime()),
    uncertainty_ms: Math.ceil(time.uncertainty_ms + halfMs),
  };
  const is_news = await commitClockOffset(db, settings.credential, offset);
  return { ...offset, verdict: judgeClockOffset(offset, settings.reconcile), is_news };
}

/** Returns the log fields of an offset. */
export function offsetFields({ offset_ms, uncertainty_ms, verdict, is_news }: MeasuredOffset): {
  readonly clock_offset_ms: number;
  readonly clock_uncertainty_ms: number;
  readonly reason?: string;
  readonly alarm?: true;
} {
  const fields = { clock_offset_ms: offset_ms, clock_uncertainty_ms: uncertainty_ms };
  if (verdict === 'fine' || (verdict === 'alarm' && !is_news)) return fields;
  const seconds = Math.round(Math.abs(offset_ms) / 1000);
  const side = offset_ms < 0 ? 'behind' : 'ahead of';
  const reason = `the provider's clock is ${seconds} s ${side} the database's; set the clock of the database server`;
  return { ...fields, reason, alarm: true };
}
