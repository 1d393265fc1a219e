import { yieldEvery as createBreather } from '@nightshift/services';

/** Milliseconds that one flow may hold the thread, on which the leases of all are renewed. */
const HELD_MS_MAX = 50;

/** As that of services, for a flow. */
export const yieldEvery = (): (() => Promise<void> | null) => createBreather(HELD_MS_MAX);
