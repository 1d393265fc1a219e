/** The provider's clock, as the `Date` headers of its answers tell it. */

/** A moment by both clocks of this machine. */
export interface Moment {
  readonly monotonic_ms: number;
  readonly wall_ms: number;
}

/** The provider's time now. */
export interface ProviderTime {
  readonly now_ms: number;
  /** By how much `now_ms` may be wrong. */
  readonly uncertainty_ms: number;
  /** Milliseconds since the last answer that told the time. */
  readonly age_ms: number;
}

export interface ProviderClock {
  /** Notes the `Date` header of an answer to a request that began at `begun`. Anything but a date is passed over. */
  note(begun: Moment, header: string | null | undefined): void;
  /** The provider's time now; null before the first answer with a date. */
  read(): ProviderTime | null;
}

interface Sample {
  /** The provider's time minus the time of each clock, in the middle of the exchange. */
  readonly monotonic_ms: number;
  readonly wall_ms: number;
  readonly uncertainty_ms: number;
  readonly taken: Moment;
}

/** Answers that are remembered: after a jump the third tells the new time. */
const SAMPLES_MAX = 5;
/** A header names a whole second: its middle is meant, and may be wrong by half of it. */
const HALF_SECOND_MS = 500;
/** Answers that took so much longer than the fastest say less than it does. */
const SLOWER_MS = 2_000;

/** The present moment. */
export function momentNow(): Moment {
  return { monotonic_ms: performance.now(), wall_ms: Date.now() };
}

/**
 * A clock that has not been told any time yet. It runs by both clocks of this machine and believes whichever says more: the
 * monotonic clock may stand still while a machine sleeps, and the wall clock may be set back. A time that is too late only
 * makes others wait longer.
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

/** The median, and the median distance from it: two wild values among five change neither much. */
function estimate(values: readonly number[]): { readonly median: number; readonly deviation: number } {
  const middle = median(values);
  return { median: middle, deviation: median(values.map((value) => Math.abs(value - middle))) };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
