const DELAY_MS = 250;

/**
 * Returns the delay before the next attempt: as `Retry-After` says (RFC 9110, seconds or a date), else exponential with
 * jitter of a half. Unit: milliseconds. `random`: 0 to 1.
 */
export function retryDelayMs(
  attempts: number,
  retryAfter: string | undefined,
  nowMs: number,
  random: number,
): number {
  if (retryAfter !== undefined) {
    const delayMs = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1_000 : Date.parse(retryAfter) - nowMs;
    if (!Number.isNaN(delayMs)) return Math.max(0, delayMs);
  }
  return DELAY_MS * 2 ** (attempts - 1) * (0.5 + random);
}
