import { setTimeout } from 'node:timers/promises';
import type { HeldLease } from '../leases/keeper.ts';
import type { FlowDeps } from './deps.ts';

/** Maximum number of worker crashes over a single line before the line is set aside. */
export const TRIES_ALONE_MAX = 3;

/**
 * Waits for a random time before a risky item is processed alone.
 * Leases of a crashed worker expire together. Without jitter the same items would run side by side at each crash, and the
 * cause could not be told.
 * Throws: the lease was lost meanwhile.
 */
export async function jitterDelay(deps: Pick<FlowDeps, 'settings'>, lease: HeldLease): Promise<void> {
  const delayMs = Math.random() * deps.settings.alone_delay_ms_max;
  if (delayMs > 0) await setTimeout(delayMs, undefined, { signal: lease.signal }).catch(() => undefined);
  lease.signal.throwIfAborted();
}
