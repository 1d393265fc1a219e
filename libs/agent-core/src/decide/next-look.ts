/**
 * Turnarounds of provider batches: the time from a create to the provider's end.
 * Each turnaround seen stands for a narrow lognormal around it, because an equal batch ends a little earlier or later. A
 * prior counts as much as {@link PRIOR_WEIGHT} turnarounds seen.
 */

/** The prior: lognormal with a median of 7 minutes and a 90th percentile of an hour. */
const PRIOR_MEDIAN_MS = 7 * 60_000;
const PRIOR_P90_MS = 60 * 60_000;
/** The standard normal distribution's 90th percentile. */
const Z90 = 1.281_551_565_5;
const PRIOR_SIGMA = Math.log(PRIOR_P90_MS / PRIOR_MEDIAN_MS) / Z90;
const PRIOR_WEIGHT = 2;
/** Spread of a turnaround around its value, in logarithms: about 5 percent. */
const SEEN_SIGMA = 0.05;
/** Share of open batches below which the distribution says nothing: the error of {@link normalCdf} is near. */
const OPEN_SHARE_MIN = 1e-5;
/** Precision of a delay. Unit: milliseconds. */
const PRECISION_MS = 100;

/** How looks at submitted provider batches are spent. */
export interface LookPolicy {
  /** A batch is looked at when it has ended since its last look with this probability. */
  readonly likely: number;
  /** Minimum and maximum delay between two looks at a batch. Unit: milliseconds. */
  readonly delay_ms_min: number;
  readonly delay_ms_max: number;
  /** Maximum look calls in a minute, over all batches of a credential and all workers. */
  readonly calls_per_minute: number;
}

export const LOOK_POLICY_DEFAULT: LookPolicy = {
  likely: 0.05,
  delay_ms_min: 5_000,
  delay_ms_max: 300_000,
  calls_per_minute: 6,
};

/** Returns the delay that one look call imposes on the next, at an even rate. Unit: milliseconds. */
export function lookSpacingMs({ calls_per_minute }: LookPolicy): number {
  return Math.ceil(60_000 / calls_per_minute);
}

/** Returns the share of provider batches that end within `withinMs`, by the turnarounds seen and the prior. */
export function turnaroundWithin(turnarounds: readonly number[], withinMs: number): number {
  if (withinMs <= 0) return 0;
  const x = Math.log(withinMs);
  let sum = PRIOR_WEIGHT * normalCdf((x - Math.log(PRIOR_MEDIAN_MS)) / PRIOR_SIGMA);
  for (const ms of turnarounds) sum += normalCdf((x - Math.log(Math.max(1, ms))) / SEEN_SIGMA);
  return sum / (PRIOR_WEIGHT + turnarounds.length);
}

/**
 * Returns the delay until the next look at a batch that was open at the age of `ageMs`: the time until its end has become
 * likely, within the policy's bounds.
 * Unit: milliseconds.
 */
export function nextLookMs(
  ageMs: number,
  turnarounds: readonly number[],
  { likely, delay_ms_min, delay_ms_max }: LookPolicy,
): number {
  const age = Math.max(0, ageMs);
  const ended = turnaroundWithin(turnarounds, age);
  const open = 1 - ended;
  if (open < OPEN_SHARE_MIN) return delay_ms_max;
  const isLikely = (delayMs: number): boolean =>
    turnaroundWithin(turnarounds, age + delayMs) - ended >= likely * open;
  if (isLikely(delay_ms_min)) return delay_ms_min;
  if (!isLikely(delay_ms_max)) return delay_ms_max;
  let [early, late] = [delay_ms_min, delay_ms_max];
  while (late - early > PRECISION_MS) {
    const middle = Math.round((early + late) / 2);
    if (isLikely(middle)) late = middle;
    else early = middle;
  }
  return late;
}

/** The standard normal distribution. Source: Abramowitz and Stegun 7.1.26, with an error below 1.5e-7. */
function normalCdf(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.327_591_1 * x);
  const poly =
    t *
    (0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
  const tail = (poly * Math.exp(-x * x)) / 2;
  return z < 0 ? tail : 1 - tail;
}
