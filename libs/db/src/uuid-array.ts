const HEADER_BYTES = 20;
const UUID_OID = 2950;
const UUID_BYTES = 16;
const UUID_CHARS = 36;
const SIZE_OF_NULL = -1;

/** Where the digits of the sixteen bytes of a uuid stand in its text: the dashes are left out. */
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
 * An array of uuids for a parameter that is cast to `uuid[]`, as the server itself keeps one: to parse them as text is the
 * dearest part of a statement about a thousand runs. Throws a TypeError for a text that is no uuid.
 * Source of the format: `array_recv` of PostgreSQL, src/backend/utils/adt/arrayfuncs.c.
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

/** A function of its own: code that is compiled while this loop runs would know nothing of what comes after it, and give up there. */
function writeElements(bytes: Buffer, ids: readonly (string | null)[]): number {
  let at = HEADER_BYTES;
  for (const id of ids) at = id === null ? bytes.writeInt32BE(SIZE_OF_NULL, at) : writeUuid(bytes, at, id);
  return at;
}

/** Its size and its bytes, one by one: the compiler makes little of this, and much of the methods of a buffer. */
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
  if (!isUuid) throw new TypeError(`A text of ${id.length} characters is no uuid.`);
  return at;
}
