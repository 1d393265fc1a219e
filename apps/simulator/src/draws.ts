import { hash } from 'node:crypto';

/** A 64-bit hash as two unsigned 32-bit halves. */
interface Hash64 {
  readonly high: number;
  readonly low: number;
}

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

function avalanche(value: number): number {
  let h = value ^ (value >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Hashes the parts, with order and boundaries, to 64 bits. Not cryptographic; stable across machines and versions. */
function hashParts(...parts: readonly (string | number)[]): Hash64 {
  let a = 0x811c9dc5;
  let b = 0x9e3779b9;
  for (const part of parts) {
    const text = String(part);
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      a = Math.imul(a ^ unit, 0x01000193);
      b = Math.imul((b << 5) ^ (b >>> 27) ^ unit, 0x5bd1e995);
    }
    a = Math.imul(a ^ 0x1f00, 0x01000193);
    b = Math.imul(b ^ text.length, 0x5bd1e995);
  }
  const high = avalanche(a ^ Math.imul(b, 0x27d4eb2f));
  return { high, low: avalanche(b + high) };
}

/** Derives a number in [0, 1) from the parts alone. */
export function drawFrom(...parts: readonly (string | number)[]): number {
  const { high, low } = hashParts(...parts);
  return ((high >>> 5) * 67108864 + (low >>> 6)) / 9007199254740992;
}

/** Derives an id from the parts: `prefix` and `length` base58 characters. */
export function idFrom(prefix: string, length: number, ...parts: readonly (string | number)[]): string {
  const { high, low } = hashParts(prefix, ...parts);
  let a = high;
  let b = low;
  let id = prefix;
  for (let i = 0; i < length; i++) {
    a = (a + 0x9e3779b9) >>> 0;
    b = avalanche(b ^ a);
    id += BASE58[b % 58] ?? '';
  }
  return id;
}

/** Hashes the exact bytes of a request's params to 128 bits in hex. */
export function contentHashOf(bytes: Uint8Array | string): string {
  return hash('sha256', bytes, 'hex').slice(0, 32);
}

/** Shuffles 0 … count-1 by the parts alone. */
export function shuffledIndexes(count: number, ...parts: readonly (string | number)[]): Uint32Array {
  const order = new Uint32Array(count);
  for (let i = 0; i < count; i++) order[i] = i;
  let state = hashParts(...parts).high;
  for (let i = count - 1; i > 0; i--) {
    state = (state + 0x9e3779b9) >>> 0;
    const j = avalanche(state) % (i + 1);
    const held = order[i] ?? 0;
    order[i] = order[j] ?? 0;
    order[j] = held;
  }
  return order;
}
