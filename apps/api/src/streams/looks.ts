/** Looks at the database again and again while there are listeners. */
export interface Looks {
  /** Begins to look, unless it does already. */
  begin(): void;
}

/**
 * Calls `look` every `intervalMs` while `isNeeded`, one call at a time, then `onRest`. A failed look is reported, and the next is
 * made as usual.
 */
export function createLooks(
  intervalMs: number,
  isNeeded: () => boolean,
  look: () => Promise<void>,
  onError: (error: unknown) => void,
  onRest: () => void = () => undefined,
): Looks {
  let isLooking = false;
  const run = async (): Promise<void> => {
    while (isNeeded()) {
      const due = performance.now() + intervalMs;
      await look().catch(onError);
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    }
    isLooking = false;
    onRest();
  };
  return {
    begin: () => {
      if (isLooking) return;
      isLooking = true;
      void run();
    },
  };
}
