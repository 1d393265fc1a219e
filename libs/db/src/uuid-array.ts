const HEADER_BYTES = 20;
const UUID_OID = 2950;
const UUID_BYTES = 16;
const UUID_CHARS = 36;
const SIZE_OF_NULL = -1;

/** Positions of the sixteen bytes' digits in the text of a uuid, without the dashes. */
const BYTE_PLACES: readonly number[] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

const NO_DIGIT = 0xff;
const DASH_PLACES: readonly number[] = [8, 13, 18, 23];
const DASH = 0x2d;
/** The value of a hex digit by its character code. */
const DIGITS = new Uint8Array(128).fill(NO_DIGIT);
for (let value = 0; value < 16; value++) {
  const digit = value.toString(16);
  DIGITS[digit.charCodeAt(0)] = DIGITS[digit.toUpperCase().charCodeAt(0)] = value;
}

/**
 * Encodes uuids in the server's binary format for a parameter cast to `uuid[]`: parsing them as text is the most expensive
 * part of a statement about a thousand runs.
 * Throws: a TypeError for an invalid uuid.
 * Source: `array_recv` of PostgreSQL, src/backend/utils/adt/arrayfuncs.c.
 */
export function uuidArray(ids: readonly (string | null)[]): Buffer {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + ids.length * (4 + UUID_BYTES));
  const dimensions = ids.length === 0 ? 0 : 1;
  bytes.writeInt32BE(dimensions, 0);
  bytes.writeInt32BE(ids.includes(null) ? 1 : 0, 4);
  bytes.writeInt32BE(UUID_OID, 8);
  bytes.writeInt32BE(ids.length, 12);
  bytes.writeInt32BE(1, 16);
  if (dimensions === 0) return bytes.subarray(0, 12);
  return bytes.subarray(0, writeElements(bytes, ids));
}

/** A separate function: code compiled during this loop would lack profiles of later code and be deoptimised there. */
function writeElements(bytes: Buffer, ids: readonly (string | null)[]): number {
  let at = HEADER_BYTES;
  for (const id of ids) at = id === null ? bytes.writeInt32BE(SIZE_OF_NULL, at) : writeUuid(bytes, at, id);
  return at;
}

/** Writes size and bytes individually: the compiler inlines this, but not the methods of a buffer. */
function writeUuid(bytes: Buffer, start: number, id: string): number {
  let seen = 0;
  let at = start;
  bytes[at++] = 0;
  bytes[at++] = 0;
  bytes[at++] = 0;
  bytes[at++] = UUID_BYTES;
  for (const place of BYTE_PLACES) {
    const high = DIGITS[id.charCodeAt(place)] ?? NO_DIGIT;
    const low = DIGITS[id.charCodeAt(place + 1)] ?? NO_DIGIT;
    seen |= high | low;
    bytes[at++] = (high << 4) | low;
  }
  const isUuid =
    seen <= 0xf && id.length === UUID_CHARS && DASH_PLACES.every((place) => id.charCodeAt(place) === DASH);
  if (!isUuid) throw new TypeError(`A text of ${id.length} characters is not a uuid.`);
  return at;
}
