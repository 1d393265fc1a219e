/** Time in which a repeated signal is a duplicate: a signal to a process group also arrives from the parent. Unit: ms. */
const REPEAT_MS = 1_000;

/** Tracks requests to shut down. */
export interface WishToEnd {
  /** True after the first request. */
  isTold(): boolean;
  /** Records a request: `first` shuts down gracefully, `again` is a duplicate signal, `at once` is a second request. */
  tell(): 'first' | 'again' | 'at once';
}

/** Distinguishes a second shutdown request from a duplicate signal. */
export function createWishToEnd(now: () => number = () => performance.now()): WishToEnd {
  let toldAt: number | null = null;
  return {
    isTold: () => toldAt !== null,
    tell() {
      if (toldAt !== null) return now() - toldAt > REPEAT_MS ? 'at once' : 'again';
      toldAt = now();
      return 'first';
    },
  };
}
