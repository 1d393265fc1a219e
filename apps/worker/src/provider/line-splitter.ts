/** Splits a byte stream into lines, in linear time and with the memory of one line. */

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const BYTE_ORDER_MARK = '\uFEFF';

/** Bytes kept of both ends of an overlong line, enough to read its custom id and its usage. */
const HEAD_BYTES = 1024;
const TAIL_BYTES = 4096;

export type Line =
  | {
      readonly kind: 'line';
      /** From 1; blank lines count. */
      readonly number: number;
      /** Without line end and byte order mark. Invalid UTF-8 is replaced by U+FFFD. */
      readonly text: string;
      /** False for a last line without line end: the stream may have been cut inside it. */
      readonly terminated: boolean;
    }
  | {
      readonly kind: 'too_long';
      readonly number: number;
      /** Length of the whole line, line end excluded. */
      readonly byte_length: number;
      /** The first and the last characters. */
      readonly head: string;
      readonly tail: string;
      readonly terminated: boolean;
    };

/**
 * Splits a stream of bytes at line feeds and yields the lines that each chunk completes, as one array.
 *
 * Accepts CRLF and a byte order mark; skips blank lines, but counts them. Of a line longer than `maxLineBytes` only head and
 * tail are kept. Leaving the loop early returns `chunks`, which closes its connection.
 * Throws: the errors of `chunks`, after all complete lines; the cut line is dropped.
 */
export async function* splitLines(
  chunks: AsyncIterable<Buffer>,
  maxLineBytes: number,
): AsyncGenerator<Line[], void, undefined> {
  const rest = new UnfinishedLine(maxLineBytes);
  let number = 0;

  for await (const chunk of chunks) {
    const lines: Line[] = [];
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      number++;
      let line: Line | null;
      if (rest.byteLength > 0) {
        rest.append(chunk, start, end);
        line = rest.take(number, true);
      } else if (end - start > maxLineBytes) {
        line = tooLong(number, end - start, chunk.subarray(start), chunk.subarray(start, end), true);
      } else line = textLine(number, chunk, start, end, true);
      if (line !== null) lines.push(line);
      start = end + 1;
    }
    rest.append(chunk, start, chunk.length);
    if (lines.length > 0) yield lines;
  }

  if (rest.byteLength > 0) {
    const line = rest.take(number + 1, false);
    if (line !== null) yield [line];
  }
}

/** The bytes since the last line feed. The buffer doubles, so that a line in many small chunks takes linear time. */
class UnfinishedLine {
  byteLength = 0;
  #buffer = Buffer.alloc(0);
  /** The end of an overlong line. */
  #tail: Buffer = Buffer.alloc(0);
  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  append(chunk: Buffer, start: number, end: number): void {
    const before = this.byteLength;
    this.byteLength += end - start;
    if (this.byteLength > this.#maxBytes) {
      const earlier = before > this.#maxBytes ? this.#tail : this.#buffer.subarray(0, before);
      const later = chunk.subarray(Math.max(start, end - TAIL_BYTES), end);
      this.#tail = Buffer.concat([earlier.subarray(-TAIL_BYTES), later]).subarray(-TAIL_BYTES);
    }
    // Only the two ends of an overlong line are needed.
    const keep = Math.min(this.byteLength, Math.max(this.#maxBytes, HEAD_BYTES));
    if (before >= keep) return;
    if (this.#buffer.length < keep) {
      const grown = Buffer.allocUnsafe(Math.max(keep, 2 * this.#buffer.length, 4096));
      this.#buffer.copy(grown, 0, 0, before);
      this.#buffer = grown;
    }
    chunk.copy(this.#buffer, before, start, start + keep - before);
  }

  /** Returns the line, or null if it is blank, and resets the buffer. */
  take(number: number, terminated: boolean): Line | null {
    const byteLength = this.byteLength;
    const buffer = this.#buffer;
    this.byteLength = 0;
    // Frees the memory of a giant line for the rest of the stream.
    if (buffer.length > 1024 * 1024) this.#buffer = Buffer.alloc(0);
    return byteLength > this.#maxBytes
      ? tooLong(number, byteLength, buffer.subarray(0, byteLength), this.#tail, terminated)
      : textLine(number, buffer, 0, byteLength, terminated);
  }
}

function textLine(
  number: number,
  bytes: Buffer,
  start: number,
  end: number,
  terminated: boolean,
): Line | null {
  if (end > start && bytes[end - 1] === CARRIAGE_RETURN) end--;
  if (end === start) return null;
  let text = bytes.toString('utf8', start, end);
  if (number === 1 && text.startsWith(BYTE_ORDER_MARK)) text = text.slice(1);
  // Cheap check first: only a line that begins with white space can be blank.
  if (text.charCodeAt(0) <= SPACE && text.trim() === '') return null;
  return text === '' ? null : { kind: 'line', number, text, terminated };
}

/** Builds an overlong line; `begin` and `end` hold at least its first and last bytes. */
function tooLong(number: number, byte_length: number, begin: Buffer, end: Buffer, terminated: boolean): Line {
  const head = begin.toString('utf8', 0, HEAD_BYTES);
  return {
    kind: 'too_long',
    number,
    byte_length,
    head: number === 1 && head.startsWith(BYTE_ORDER_MARK) ? head.slice(1) : head,
    tail: end.toString('utf8', Math.max(0, end.length - TAIL_BYTES)),
    terminated,
  };
}
