/** Interval of heartbeats, below the idle timeout of proxies. Unit: milliseconds. */
export const HEARTBEAT_MS = 15_000;

/** Wakes one waiting stream. A wake-up while nothing waits is kept for the next wait. */
export interface Waker {
  wake(): void;
  /** Ends the stream; every later wait returns at once. */
  end(): void;
  hasEnded(): boolean;
  /** Waits for a wake-up, the end, or the interval of heartbeats. */
  wait(): Promise<'changed' | 'quiet' | 'ended'>;
}

export function createWaker(): Waker {
  let isAwake = false;
  let hasEnded = false;
  let resume: ((outcome: 'changed' | 'quiet' | 'ended') => void) | null = null;
  return {
    wake: () => {
      isAwake = true;
      resume?.('changed');
    },
    end: () => {
      hasEnded = true;
      resume?.('ended');
    },
    hasEnded: () => hasEnded,
    wait: async () => {
      if (hasEnded) return 'ended';
      if (!isAwake) {
        const { promise, resolve } = Promise.withResolvers<'changed' | 'quiet' | 'ended'>();
        const timer = setTimeout(() => resolve('quiet'), HEARTBEAT_MS);
        resume = resolve;
        const outcome = await promise;
        resume = null;
        clearTimeout(timer);
        if (outcome !== 'changed') return outcome;
      }
      isAwake = false;
      return 'changed';
    },
  };
}
