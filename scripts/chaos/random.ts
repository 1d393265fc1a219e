import { createHash } from 'node:crypto';

/** Returns numbers in [0, 1) that follow from the seed. */
export function createRandom(seed: string): () => number {
  let drawn = 0;
  return () => {
    drawn += 1;
    return createHash('sha256').update(`${seed}/${drawn}`).digest().readUInt32BE(0) / 2 ** 32;
  };
}
