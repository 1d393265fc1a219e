/** An expected total and the interval that holds the real total with a probability of 80 %. */
export interface ProjectedRange {
  /** Null for fewer than two runs. */
  readonly low: number | null;
  readonly expected: number;
  readonly high: number | null;
}

/**
 * Projects the total of `total` values from a sample of them. The interval is a prediction for the values outside the
 * sample: Student's t with the sample's variance, and no less than the sample itself.
 */
export function projectTotal(sample: readonly number[], total: number): ProjectedRange {
  const spent = sum(sample);
  const rest = Math.max(0, total - sample.length);
  if (rest === 0) return { low: spent, expected: spent, high: spent };
  const mean = sample.length === 0 ? 0 : spent / sample.length;
  const expected = Math.round(spent + mean * rest);
  if (sample.length < 2) return { low: null, expected, high: null };
  const degrees = sample.length - 1;
  const variance = sum(sample.map((value) => (value - mean) ** 2)) / degrees;
  // The variance of the others' sum, and of the mean that it is projected from.
  const margin = tenthQuantile(degrees) * Math.sqrt(variance * rest * (1 + rest / sample.length));
  return {
    low: Math.max(spent, Math.round(expected - margin)),
    expected,
    high: Math.round(expected + margin),
  };
}

/** The quantiles of the expansion below that are too inexact. */
const FEW_DEGREES = [3.0777, 1.8856, 1.6377];

/** Returns the 90 % quantile of Student's t, by its expansion around the normal quantile. */
function tenthQuantile(degrees: number): number {
  const z = 1.281552;
  const expansion =
    z + (z ** 3 + z) / (4 * degrees) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2);
  return FEW_DEGREES[degrees - 1] ?? expansion;
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}
