/** A stream of pseudo-random draws from a seed (sfc32). */
export interface Random {
  /** Draws from [0, 1). */
  next(): number;
  chance(probability: number): boolean;
  /** Draws a whole number from [from, to]. */
  int(from: number, to: number): number;
  pick<T>(items: readonly T[]): T;
  bytes(count: number): Buffer;
  /** Returns an independent stream: its draws do not change the draws of this one. */
  fork(label: string): Random;
}

/** Creates the stream of a seed. */
export function createRandom(seed: string): Random {
  let [a, b, c, d] = [hash32(`${seed}/a`), hash32(`${seed}/b`), hash32(`${seed}/c`), 1];
  const uint32 = (): number => {
    const t = (a + b + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return t >>> 0;
  };
  for (let round = 0; round < 12; round++) uint32();
  const next = (): number => uint32() / 0x1_0000_0000;
  return {
    next,
    chance: (probability) => next() < probability,
    int: (from, to) => from + Math.floor(next() * (to - from + 1)),
    pick(items) {
      const item = items[Math.floor(next() * items.length)];
      if (item === undefined) throw new Error('There is nothing to pick from.');
      return item;
    },
    bytes: (count) => Buffer.from(Array.from({ length: count }, () => uint32() & 0xff)),
    fork: (label) => createRandom(`${seed}/${label}`),
  };
}

/** Draws from [0, 1) by the label alone, independent of other draws. */
export function drawOf(label: string): number {
  return hash32(label) / 0x1_0000_0000;
}

/** Hashes a text to 32 bits: FNV-1a with a final mix. */
export function hash32(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
