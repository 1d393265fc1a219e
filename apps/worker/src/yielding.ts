import { yieldEvery as createYielder } from '@nightshift/services';

/** Longest time that one flow may block the thread, which also renews leases. Unit: ms. */
const HELD_MS_MAX = 50;

/** Creates a yielder with a flow's time limit. */
export const yieldEvery = (): (() => Promise<void> | null) => createYielder(HELD_MS_MAX);
