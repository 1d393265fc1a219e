import { expect } from 'vitest';

/** Asserts on what is read once it comes true; patient, because the machine may be busy with other tests. */
export function eventually<T>(
  read: () => T,
  { timeout = 10_000, interval = 50 }: { timeout?: number; interval?: number } = {},
): ReturnType<typeof expect.poll<T>> {
  return expect.poll(read, { timeout, interval });
}
