import { setTimeout } from 'node:timers/promises';
import type { HeldLease } from '../leases/keeper.ts';
import type { FlowDeps } from './deps.ts';

/** Crashes of a worker with one line alone, after which the line is put aside. */
export const TRIES_ALONE_MAX = 3;

/**
 * Waits for a random time before something is tried alone. All leases of a worker that has ended run out together, and what was
 * taken up in the same moments from then on would be alone at each further end, whichever of it is the cause. Throws when the
 * lease is lost meanwhile.
 */
export async function jitterDelay(deps: Pick<FlowDeps, 'settings'>, lease: HeldLease): Promise<void> {
  const delayMs = Math.random() * deps.settings.alone_delay_ms_max;
  if (delayMs > 0) await setTimeout(delayMs, undefined, { signal: lease.signal }).catch(() => undefined);
  lease.signal.throwIfAborted();
}
