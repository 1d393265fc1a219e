/** Milliseconds that this thread has had of the CPU: other processes take nothing of them. */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** What the work took of this thread's CPU: the same on a busy machine. */
export function cpuMsOf(work: () => unknown): number {
  const before = threadCpuMs();
  work();
  return threadCpuMs() - before;
}

/**
 * What part of the work was done in its longest stretch, in which nobody else had the thread: no lease was renewed. Counted in
 * time of this thread's CPU.
 */
export async function longestStretchOf(work: () => Promise<unknown>): Promise<number> {
  const before = threadCpuMs();
  const longest = await longestHoldMsOf(work);
  return longest / (threadCpuMs() - before);
}

/** Milliseconds of this thread's CPU in the longest stretch of the work in which no timer was served. */
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
