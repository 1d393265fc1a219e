/** Wakes a loop. A wake between two waits is not lost. */
export interface Waker {
  wake(): void;
  /** Resolves at the next wake, at once after a missed one, or after `ms`. */
  wait(ms?: number): Promise<void>;
}

export function createWaker(): Waker {
  let isMissed = false;
  let end: (() => void) | undefined;
  return {
    wake() {
      if (end === undefined) isMissed = true;
      else end();
    },
    wait(ms) {
      if (isMissed) {
        isMissed = false;
        return Promise.resolve();
      }
      return new Promise((resolve) => {
        const timer = ms === undefined ? undefined : setTimeout(() => end?.(), ms);
        end = () => {
          clearTimeout(timer);
          end = undefined;
          resolve();
        };
      });
    },
  };
}
