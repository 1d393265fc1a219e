import { expect } from 'vitest';

/** Polls until an assertion holds, with a timeout for a busy machine. */
export function eventually<T>(
  read: () => T,
  { timeout = 10_000, interval = 50 }: { timeout?: number; interval?: number } = {},
): ReturnType<typeof expect.poll<T>> {
  return expect.poll(read, { timeout, interval });
}
