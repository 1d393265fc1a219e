import type { ReconcilePolicy } from './after-search.ts';

/**
 * Offset of the provider's clock ahead of the database's, and its uncertainty.
 * Unit: milliseconds.
 */
export interface ClockOffset {
  readonly offset_ms: number;
  readonly uncertainty_ms: number;
}

/**
 * Offset at which an operator is warned.
 * Unit: milliseconds.
 */
export const CLOCK_ALARM_MS = 30_000;

/** `alarm`: an operator should set a clock. `stop`: nothing may be sent, as a search might not cover it. */
export type ClockVerdict = 'fine' | 'alarm' | 'stop';

/** Judges an offset. A search covers the margin even where a later reader cannot measure the offset again. */
export function judgeClockOffset(
  { offset_ms, uncertainty_ms }: ClockOffset,
  { clock_margin_ms }: Pick<ReconcilePolicy, 'clock_margin_ms'>,
): ClockVerdict {
  const apartMs = Math.abs(offset_ms);
  if (!(apartMs + uncertainty_ms <= clock_margin_ms)) return 'stop';
  return apartMs >= CLOCK_ALARM_MS ? 'alarm' : 'fine';
}
