import type * as fileSystem from 'node:fs/promises';
import { NightshiftFileError, NightshiftUnreachableError } from './errors.ts';
import type { Batch } from './generated/types.gen.ts';
import { onceOnly } from './once.ts';
import type { Send } from './send.ts';

/** A path, a `file:` URL, a `Blob`, a web stream, or anything that yields the file in parts. Texts are sent as UTF-8. */
export type FileSource =
  string | URL | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array | string>;

/** Options of `batches.createFromFile`. */
export interface FileOptions {
  /** Content type. Default: `application/jsonl`. */
  readonly type?: string;
  /** Compression of the file. Default: by the end of the path, `.gz` or `.zst`; else none. */
  readonly encoding?: 'gzip' | 'zstd' | 'identity';
  /** The same key makes the same batch once, for a day. Default: a random key per call. */
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal;
  /** Called with the bytes sent, and those of the file; null if it is a stream. A retry begins at 0 again. */
  readonly onBytes?: (sent: number, total: number | null) => void;
}

/** The file as an attempt sends it. */
interface Reading {
  readonly parts: AsyncIterator<Uint8Array | string>;
  /** Null if it is not known. */
  readonly total: number | null;
}

const PART_BYTES = 256 * 1024;

/**
 * Sends a file with a request per line as a batch, in parts as it is read. A path and a `Blob` are read again for a retry.
 * Browsers send a `Blob` only: they cannot stream a body over HTTP/1.
 * Throws: {@link NightshiftFileError} if the file cannot be read or changes meanwhile, and if a stream is cut.
 */
export async function createFromFile(send: Send, source: FileSource, options: FileOptions): Promise<Batch> {
  const { type = 'application/jsonl', encoding = encodingOf(source), onBytes, signal } = options;
  const once = onceOnly(options.idempotencyKey);
  const isRepeatable = isPath(source) || source instanceof Blob;
  const read = isPath(source) ? pathReader(source) : () => Promise.resolve(readSource(source));
  let reading: Reading | undefined;
  try {
    const answer = await send('POST', '/v1/batches', {
      headers: {
        'content-type': type,
        ...once,
        ...(encoding === 'identity' ? {} : { 'content-encoding': encoding }),
      },
      body: async () => {
        if (source instanceof Blob) return source;
        stop(reading);
        reading = await read();
        return toStream(reading, onBytes);
      },
      signal,
      timeoutMs: Infinity,
      retriesMax: isRepeatable ? undefined : 0,
    });
    if (source instanceof Blob) onBytes?.(source.size, source.size);
    return (await answer.json()) as Batch;
  } catch (error) {
    if (isRepeatable || !(error instanceof NightshiftUnreachableError)) throw error;
    const key = once['idempotency-key'];
    const again = `Open it again and pass idempotencyKey: '${key}': if the batch was made, it is returned.`;
    throw new NightshiftFileError(`The upload was cut, and a stream cannot be sent twice. ${again}`, error);
  } finally {
    stop(reading);
  }
}

/** Closes the file of an attempt. Not awaited: a source that waits for its next part does not end before. */
function stop(reading: Reading | undefined): void {
  reading?.parts.return?.().catch(() => undefined);
}

const isPath = (source: FileSource): source is string | URL =>
  typeof source === 'string' || source instanceof URL;

function encodingOf(source: FileSource): NonNullable<FileOptions['encoding']> {
  const path = source instanceof URL ? source.pathname : source;
  if (typeof path !== 'string') return 'identity';
  if (path.endsWith('.gz')) return 'gzip';
  return path.endsWith('.zst') ? 'zstd' : 'identity';
}

function readSource(source: Exclude<FileSource, string | URL>): Reading {
  const stream = source instanceof Blob ? source.stream() : source;
  const parts = stream instanceof ReadableStream ? partsOf(stream) : stream[Symbol.asyncIterator]();
  return { parts, total: null };
}

/** Not every browser can iterate a stream. */
async function* partsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const reader = stream.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Returns the bytes as a stream. An error of the source breaks the upload off, so that the API stores nothing. */
function toStream({ parts, total }: Reading, onBytes: FileOptions['onBytes']): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let sent = 0;
  return new ReadableStream<Uint8Array>(
    {
      pull: async (stream) => {
        const part = await parts.next();
        onBytes?.(sent, total);
        if (part.done === true) {
          stream.close();
          return;
        }
        const bytes = typeof part.value === 'string' ? encoder.encode(part.value) : part.value;
        sent += bytes.byteLength;
        stream.enqueue(bytes);
      },
    },
    { highWaterMark: 0 },
  );
}

/** Size, time and inode of a file, which show a change. */
type Stamp = Readonly<Record<'size' | 'mtimeNs' | 'ino', bigint>>;

/** Returns a function that begins to read a file. A file that changes while it is read, or between two attempts, is an error. */
function pathReader(path: string | URL): () => Promise<Reading> {
  let first: Stamp | undefined;
  return async () => {
    const fs = loadFs();
    const stat = await fs.stat(path, { bigint: true }).catch((error: unknown) => {
      throw unreadableFile(path, error);
    });
    if (first !== undefined && !(stat.isFile() && isSame(first, stat))) throw changedBetween(path);
    first = stat;
    return {
      parts: readFile(fs, path, stat.isFile() ? stat : null),
      total: stat.isFile() ? Number(stat.size) : null,
    };
  };
}

/** Yields the bytes of a file. `expected` is null for a pipe, which has no size. */
async function* readFile(
  fs: FileSystem,
  path: string | URL,
  expected: Stamp | null,
): AsyncGenerator<Uint8Array, void> {
  try {
    const file = await fs.open(path);
    try {
      for (;;) {
        const { bytesRead, buffer } = await file.read(new Uint8Array(PART_BYTES), 0, PART_BYTES);
        if (bytesRead === 0) break;
        yield buffer.subarray(0, bytesRead);
      }
    } finally {
      await file.close();
    }
    if (expected !== null && !isSame(expected, await fs.stat(path, { bigint: true })))
      throw new NightshiftFileError(
        `${String(path)} changed while it was sent, so the upload was broken off, and no batch was made. Send it again when it is complete.`,
      );
  } catch (error) {
    throw error instanceof NightshiftFileError ? error : unreadableFile(path, error);
  }
}

const isSame = (one: Stamp, other: Stamp): boolean =>
  one.size === other.size && one.mtimeNs === other.mtimeNs && one.ino === other.ino;

function unreadableFile(path: string | URL, cause: unknown): NightshiftFileError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new NightshiftFileError(`${String(path)} cannot be read: ${reason}. No batch was made.`, cause);
}

function changedBetween(path: string | URL): NightshiftFileError {
  return new NightshiftFileError(
    `${String(path)} changed or cannot be read twice, and the first attempt to send it got no answer. See the list of batches whether it made one, before you send the file again.`,
  );
}

type FileSystem = typeof fileSystem;

/** Asks for the module at run time: an import would fail in bundles for browsers. */
function loadFs(): FileSystem {
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } };
  const fs = process?.getBuiltinModule?.('node:fs/promises');
  if (fs !== undefined) return fs as FileSystem;
  throw new NightshiftFileError('A path needs Node 20.16 or later, Bun or Deno. Pass a Blob or a stream.');
}
