import type { Lease } from '@nightshift/db';
import type { HeldLease, LeaseKeeper } from './keeper.ts';

/** Milliseconds before a row whose flow failed is tried again. */
const AFTER_FAILURE_MS = 1_000;

/**
 * Works under a claim. Done: the commit has given the row back, and the renewal ends. Failed: the row is given back for
 * a later try, so that it does not wait for the lease to run out; where the database is away, as soon as it answers.
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

/** As {@link withLease}, under several claims of one table: a failure gives back whatever no commit has given back. */
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
