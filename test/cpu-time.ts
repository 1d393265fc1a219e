/** Returns this thread's CPU time, unaffected by other processes. Unit: milliseconds. */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Returns the CPU time of the work: the same on a busy machine. */
export function cpuMsOf(work: () => unknown): number {
  const before = threadCpuMs();
  work();
  return threadCpuMs() - before;
}

/** Returns the longest stretch in which the work held the thread, as a share of its CPU time. No lease is renewed meanwhile. */
export async function longestStretchOf(work: () => Promise<unknown>): Promise<number> {
  const before = threadCpuMs();
  const longest = await longestHoldMsOf(work);
  return longest / (threadCpuMs() - before);
}

/** Returns the longest CPU time of the work without a served timer. Unit: milliseconds. */
export async function longestHoldMsOf(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let last = threadCpuMs();
  const look = (): void => {
    const now = threadCpuMs();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(look, 1);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  look();
  return longest;
}
