/** Limits concurrent work. Waiters run in FIFO order. */
export interface Slots {
  /** Runs the work once a slot is free, and frees it even if the work throws. */
  run<T>(work: () => Promise<T>): Promise<T>;
}

/** Creates `count` slots. */
export function createSlots(count: number): Slots {
  let free = count;
  const waiting: (() => void)[] = [];
  return {
    async run(work) {
      if (free > 0) free -= 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next === undefined) free += 1;
        else next();
      }
    },
  };
}
