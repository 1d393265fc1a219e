import { yieldEvery as yieldEveryMs } from '@nightshift/services';

/** Longest time that one flow may block the thread, which also renews leases. Unit: ms. */
const HELD_MS_MAX = 50;

export const yieldEvery = (): (() => Promise<void> | null) => yieldEveryMs(HELD_MS_MAX);
