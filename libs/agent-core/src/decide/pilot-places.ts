/** The golden ratio's fraction: its multiples modulo 1 are spread evenly and repeat with no period. */
const STRIDE = (Math.sqrt(5) - 1) / 2;

/**
 * Returns the places of a pilot's runs among `count` inputs, ascending: one from each of `runs` stretches of about equal
 * length, so that sorted inputs are sampled evenly. The place within its stretch varies, so that inputs of a regular
 * pattern are not all hit at the same point of it. Equal arguments give equal places.
 */
export function pilotPlaces(count: number, runs: number): readonly number[] {
  const picked = Math.min(count, runs);
  return Array.from({ length: picked }, (_, index) => {
    const from = Math.floor((index * count) / picked);
    const to = Math.floor(((index + 1) * count) / picked);
    return from + Math.floor((((index + 1) * STRIDE) % 1) * (to - from));
  });
}
