/** Time in which a repeated signal is a duplicate: a signal to a process group also arrives from the parent. Unit: ms. */
const REPEAT_MS = 1_000;

/** Tracks requests to shut down. */
export interface Shutdown {
  /** True after the first request. */
  isRequested(): boolean;
  /** Records a request: `first` shuts down gracefully, `again` is a duplicate signal, `at once` is a second request. */
  request(): 'first' | 'again' | 'at once';
}

/** Distinguishes a second shutdown request from a duplicate signal. */
export function createShutdown(now: () => number = () => performance.now()): Shutdown {
  let requestedAt: number | null = null;
  return {
    isRequested: () => requestedAt !== null,
    request() {
      if (requestedAt !== null) return now() - requestedAt > REPEAT_MS ? 'at once' : 'again';
      requestedAt = now();
      return 'first';
    },
  };
}
