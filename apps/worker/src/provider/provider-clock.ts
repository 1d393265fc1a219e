/** The provider's clock, estimated from the `Date` headers of its answers. */

/** A moment by both clocks of this machine. */
export interface Moment {
  readonly monotonic_ms: number;
  readonly wall_ms: number;
}

export interface ProviderTime {
  readonly now_ms: number;
  /** Maximum error of `now_ms`. */
  readonly uncertainty_ms: number;
  /** Milliseconds since the last answer with a date. */
  readonly age_ms: number;
}

export interface ProviderClock {
  /** Records the `Date` header of the answer to a request that began at `begun`; ignores an invalid header. */
  note(begun: Moment, header: string | null | undefined): void;
  /** Returns the provider's present time; null before the first answer with a date. */
  read(): ProviderTime | null;
}

interface Sample {
  /** Offset of the provider's time from each clock, in the middle of the exchange. */
  readonly monotonic_ms: number;
  readonly wall_ms: number;
  readonly uncertainty_ms: number;
  readonly taken: Moment;
}

/** Number of samples kept: after a jump of the clock, the third answer shows the new time. */
const SAMPLES_MAX = 5;
/** A `Date` header has whole seconds, so its middle is right within half a second. */
const HALF_SECOND_MS = 500;
/** Samples slower than the fastest by more than this are ignored. */
const SLOWER_MS = 2_000;

export function momentNow(): Moment {
  return { monotonic_ms: performance.now(), wall_ms: Date.now() };
}

/**
 * Creates a clock without samples. It uses both clocks of this machine and returns the later time: the monotonic clock may
 * stop while the machine sleeps, and the wall clock may be set back. A time that is too late only delays work.
 */
export function createProviderClock(now: () => Moment = momentNow): ProviderClock {
  let samples: readonly Sample[] = [];
  return {
    note(begun, header) {
      const date = header == null ? Number.NaN : Date.parse(header);
      if (Number.isNaN(date)) return;
      const taken = now();
      const tookMs = Math.max(0, taken.monotonic_ms - begun.monotonic_ms);
      const middle = date + HALF_SECOND_MS;
      const sample = {
        monotonic_ms: middle - (begun.monotonic_ms + taken.monotonic_ms) / 2,
        wall_ms: middle - (begun.wall_ms + taken.wall_ms) / 2,
        uncertainty_ms: tookMs / 2 + HALF_SECOND_MS,
        taken,
      };
      samples = [...samples, sample].slice(-SAMPLES_MAX);
    },
    read() {
      const last = samples.at(-1);
      if (last === undefined) return null;
      const fastest = Math.min(...samples.map((sample) => sample.uncertainty_ms));
      const good = samples.filter((sample) => sample.uncertainty_ms <= fastest + SLOWER_MS);
      const { monotonic_ms, wall_ms } = now();
      const byMonotonic = estimate(good.map((sample) => sample.monotonic_ms));
      const byWall = estimate(good.map((sample) => sample.wall_ms));
      const times = [monotonic_ms + byMonotonic.median, wall_ms + byWall.median];
      const now_ms = Math.max(...times);
      return {
        now_ms,
        uncertainty_ms:
          median(good.map((sample) => sample.uncertainty_ms)) +
          Math.max(byMonotonic.deviation, byWall.deviation) +
          (now_ms - Math.min(...times)),
        age_ms: Math.max(0, monotonic_ms - last.taken.monotonic_ms, wall_ms - last.taken.wall_ms),
      };
    },
  };
}

/** Returns the median and the median deviation: robust against two outliers among five values. */
function estimate(values: readonly number[]): { readonly median: number; readonly deviation: number } {
  const middle = median(values);
  return { median: middle, deviation: median(values.map((value) => Math.abs(value - middle))) };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
