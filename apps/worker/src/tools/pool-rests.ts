const REST_MS = 1_000;
const REST_MS_MAX = 30_000;

/** Pools whose host takes no calls. Each rests before its host is asked again. */
export interface PoolRests {
  /** Returns the rest of a pool; 0 while its host takes calls. Unit: milliseconds. */
  restMs(pool: string): number;
  /** Records whether the host of a pool took a call. The rest doubles with each failed try, up to half a minute. */
  record(pool: string, isTaken: boolean): void;
}

export function createPoolRests(): PoolRests {
  const resting = new Map<string, { readonly tries: number; readonly endsMs: number }>();
  function restMs(pool: string): number {
    const rest = resting.get(pool);
    // It is asked for each waiting call: most pools never rest, and a look at the clock takes longer.
    return rest === undefined ? 0 : Math.max(0, rest.endsMs - performance.now());
  }
  return {
    restMs,
    record(pool, isTaken) {
      if (isTaken) resting.delete(pool);
      // The calls of one moment are one try.
      else if (restMs(pool) === 0) {
        const tries = resting.get(pool)?.tries ?? 0;
        const endsMs = performance.now() + Math.min(REST_MS_MAX, REST_MS * 2 ** tries);
        resting.set(pool, { tries: tries + 1, endsMs });
      }
    },
  };
}
