/** Milliseconds that a batch may hold the thread before others get their turn. */
export const HELD_MS_MAX = 20;
