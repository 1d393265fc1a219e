import { isUtf8 } from 'node:buffer';
import { pipeline, Readable } from 'node:stream';
import { createGunzip, createZstdDecompress, constants } from 'node:zlib';
import { NightshiftError } from '@nightshift/agent-core';
import { linePath } from '@nightshift/intake';
import type { LineCoding } from './line-upload.ts';

/** Limits of an upload. */
export interface UploadLimits {
  /** Bytes of a line. */
  readonly line_bytes: number;
  readonly lines: number;
  /** Bytes of all lines, decoded. */
  readonly bytes: number;
  /** Longest wait for the next byte. Unit: ms. */
  readonly idle_ms: number;
}

/** The cause and the remedy of a line that holds several values. */
export const LOST_LINE_ENDS =
  'It holds several values: end each with a newline. `curl -d` removes newlines, `curl --data-binary` keeps them';

/** Neighbouring lines, without their ends. */
export interface Lines {
  /** Number of the first, from 1. */
  readonly first: number;
  readonly texts: readonly string[];
}

/** Bytes that are decoded at once. */
const DECODED_BYTES = 262_144;
/** Largest window of zstd, as a power of two: 8 MiB. */
const ZSTD_WINDOW_LOG_MAX = 23;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BYTE_ORDER_MARK = Buffer.from('\uFEFF');

/**
 * Reads the lines of an upload as its bytes arrive, and passes the decoded bytes to `onBytes`. Empty lines at the end are left out.
 * Throws: `invalid_argument` for an upload that is cut, or not encoded as it says, or encoded without saying so; `validation_failed` for a byte order mark, a
 * line that ends with CR LF, is not UTF-8, or is empty before another line; `payload_too_large` for a limit; `request_timeout`.
 */
export async function* readLines(
  body: Readable,
  coding: LineCoding,
  limits: UploadLimits,
  onBytes: (bytes: Buffer) => void,
): AsyncGenerator<Lines> {
  const split = createSplitter(limits);
  let bytes = 0;
  for await (const part of decoded(body, coding, limits.idle_ms)) {
    if (bytes === 0) refuseEncoded(part, coding);
    bytes += part.length;
    if (bytes > limits.bytes)
      throw tooLarge(`The upload has more than ${limits.bytes.toLocaleString('en')} bytes, decoded.`);
    onBytes(part);
    const lines = split(part, false);
    if (lines !== null) yield lines;
  }
  const rest = split(Buffer.alloc(0), true);
  if (rest !== null) yield rest;
}

/** The first bytes of encoded data. */
const MAGIC = { gzip: Buffer.from([0x1f, 0x8b]), zstd: Buffer.from([0x28, 0xb5, 0x2f, 0xfd]) };

/** Throws: `invalid_argument` for encoded data that the request does not call so. */
function refuseEncoded(part: Buffer, coding: LineCoding): void {
  for (const [name, magic] of Object.entries(MAGIC)) {
    if (!part.subarray(0, magic.length).equals(magic)) continue;
    const message =
      coding === 'identity'
        ? `is encoded as ${name}: send it with \`Content-Encoding: ${name}\``
        : `is encoded as ${name} below its ${coding}: encode it once`;
    throw new NightshiftError('invalid_argument', `The upload ${message}. Nothing was stored.`);
  }
}

/** Decodes a body. The body stays open for the answer. */
async function* decoded(body: Readable, coding: LineCoding, idleMs: number): AsyncGenerator<Buffer> {
  const parts = partsWithin(body, idleMs);
  if (coding === 'identity') {
    yield* parts;
    return;
  }
  const decoder =
    coding === 'gzip'
      ? createGunzip({ chunkSize: DECODED_BYTES })
      : createZstdDecompress({
          chunkSize: DECODED_BYTES,
          params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG_MAX },
        });
  pipeline(Readable.from(parts), decoder, () => undefined);
  try {
    yield* decoder as AsyncIterable<Buffer>;
  } catch (error) {
    if (error instanceof NightshiftError) throw error;
    const { code = '', message } = error as NodeJS.ErrnoException;
    throw code === 'Z_BUF_ERROR' || code.startsWith('Z') || code.startsWith('ERR_')
      ? new NightshiftError('invalid_argument', `The upload is cut, or is not ${coding}: ${message}.`)
      : error;
  }
}

/** Yields the parts of a body. Throws: `request_timeout` after a time without a byte. */
async function* partsWithin(body: Readable, idleMs: number): AsyncGenerator<Buffer> {
  const parts = body.iterator({ destroyOnReturn: false });
  for (;;) {
    let timer: NodeJS.Timeout | undefined;
    const stalled = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const message = `The upload has brought no byte for ${idleMs / 1000} s.`;
        reject(new NightshiftError('request_timeout', message));
      }, idleMs);
    });
    try {
      const next = (await Promise.race([parts.next(), stalled])) as IteratorResult<Buffer>;
      if (next.done === true) return;
      yield next.value;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Creates a splitter of bytes into lines. It returns the lines that are complete; the last call ends the last line. */
function createSplitter(limits: UploadLimits): (part: Buffer, isLast: boolean) => Lines | null {
  let open: Buffer[] = [];
  let openBytes = 0;
  let next = 1;
  let emptyLine: number | null = null;

  const checkLength = (line: number, bytes: number, part?: Buffer): void => {
    if (bytes <= limits.line_bytes) return;
    const hint = line === 1 && part?.includes('}{') === true ? `. ${LOST_LINE_ENDS}` : '';
    const message = `is longer than ${limits.line_bytes.toLocaleString('en')} bytes${hint}`;
    throw lineError(line, message, 'payload_too_large');
  };
  const cut = (block: Buffer): Lines | null => {
    if (next === 1 && block.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK))
      throw lineError(1, 'begins with a byte order mark: save the file as UTF-8 without it');
    if (!isUtf8(block)) throw lineError(next + badLineOf(block), 'is not UTF-8');
    const texts = block.toString().split('\n');
    if (block.length > limits.line_bytes)
      for (const [index, text] of texts.entries()) checkLength(next + index, Buffer.byteLength(text));
    if (block.includes(CARRIAGE_RETURN)) refuseCarriageReturn(texts, next);
    const first = next;
    next += texts.length;
    if (next - 1 > limits.lines)
      throw tooLarge(
        `The upload has more than ${limits.lines.toLocaleString('en')} lines. Split it over several.`,
      );
    if (emptyLine === null && !texts.includes('')) return { first, texts };
    const kept = texts.filter((text, index) => {
      if (text !== '' && emptyLine !== null) throw lineError(emptyLine, 'is empty: remove it');
      if (text === '') emptyLine ??= first + index;
      return text !== '';
    });
    return kept.length === 0 ? null : { first, texts: kept };
  };
  return (part, isLast) => {
    const end = isLast ? part.length : part.lastIndexOf(LINE_FEED);
    checkLength(next, openBytes + (end === -1 ? part.length : part.indexOf(LINE_FEED)), part);
    if (end === -1) {
      open.push(part);
      openBytes += part.length;
      return null;
    }
    const block = Buffer.concat([...open, part.subarray(0, end)]);
    open = isLast ? [] : [part.subarray(end + 1)];
    openBytes = open[0]?.length ?? 0;
    return isLast && block.length === 0 ? null : cut(block);
  };
}

/** Returns the place of the first line that is not UTF-8. */
function badLineOf(block: Buffer): number {
  let place = 0;
  for (let from = 0; from < block.length; place++) {
    const end = block.indexOf(LINE_FEED, from);
    const to = end === -1 ? block.length : end;
    if (!isUtf8(block.subarray(from, to))) return place;
    from = to + 1;
  }
  return place;
}

function refuseCarriageReturn(texts: readonly string[], first: number): void {
  const place = texts.findIndex((text) => text.endsWith('\r'));
  if (place === -1) return;
  throw lineError(first + place, 'ends with CR LF: end lines with LF alone');
}

/** Creates the error of a line. */
export function lineError(
  line: number,
  message: string,
  code: 'validation_failed' | 'payload_too_large' = 'validation_failed',
): NightshiftError {
  return new NightshiftError(code, `Line ${line} ${message}. Nothing was stored.`, {
    fields: [{ path: linePath(line), message }],
  });
}

function tooLarge(message: string): NightshiftError {
  return new NightshiftError('payload_too_large', message);
}
