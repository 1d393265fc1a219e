import type { Lease } from '@nightshift/db';
import type { HeldLease, LeaseKeeper } from './keeper.ts';

/** Pause before a failed flow's row is due again. Unit: ms. */
const AFTER_FAILURE_MS = 1_000;

/**
 * Runs `work` under a renewed lease. On success the commit has released the row, and only the renewal ends.
 * On failure it releases the row for a later try; while the database is away, the keeper retries the release.
 */
export async function withLease<T>(
  leases: LeaseKeeper,
  claim: Lease,
  work: (lease: HeldLease) => Promise<T>,
): Promise<T> {
  const lease = leases.hold(claim);
  try {
    const result = await work(lease);
    leases.forget(lease);
    return result;
  } catch (error) {
    await leases.release(lease, AFTER_FAILURE_MS).catch(() => undefined);
    throw error;
  }
}

/** As {@link withLease}, for several claims of one table: a failure releases the rows that no commit has released. */
export async function withLeases<T>(
  leases: LeaseKeeper,
  claims: readonly Lease[],
  work: () => Promise<T>,
): Promise<T> {
  const held = claims.map((claim) => leases.hold(claim));
  try {
    const result = await work();
    for (const lease of held) leases.forget(lease);
    return result;
  } catch (error) {
    await leases.releaseAll(claims, AFTER_FAILURE_MS).catch(() => undefined);
    throw error;
  }
}
