/** Longest time that a batch may block the thread. Unit: ms. */
export const HELD_MS_MAX = 20;
