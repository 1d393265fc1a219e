/**
 * Request bodies of creates, as files. A body of tens of megabytes is written page by page and sent from disk: memory stays
 * flat, size and hash are known before the upload, and the upload has a Content-Length.
 *
 * A body file can be rebuilt from the database at any time, so it is neither synced nor kept.
 */
import { createHash, randomUUID } from 'node:crypto';
import { openAsBlob } from 'node:fs';
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import {
  BODY_END,
  BODY_SEPARATOR,
  BODY_START,
  bodyBytesWith,
  EMPTY_BODY_BYTES,
} from '@nightshift/agent-core';

/** Write buffer size in bytes. */
const WRITE_BYTES = 256 * 1024;

export interface FinishedBody {
  readonly path: string;
  readonly bytes: number;
  readonly count: number;
  /** Hex digest of the file. */
  readonly sha256: string;
  /** Opens the file as a Blob of type `application/json`, read while it is sent. */
  blob(): Promise<Blob>;
  /** Deletes the file. Idempotent. */
  discard(): Promise<void>;
}

export interface BodyFile {
  readonly path: string;
  /** Requests appended so far. */
  readonly count: number;
  /** Exact file size if it were finished now. */
  readonly bytes: number;
  /** Exact file size if it were finished after one more request of `requestBytes`. */
  bytesWith(requestBytes: number): number;
  /** Appends one request from `encodeRequest`, in UTF-8. Waits for the disk when the write buffer is full. */
  append(request: Uint8Array): Promise<void>;
  /** Completes and closes the file. `append` then throws. */
  finish(): Promise<FinishedBody>;
  /** Closes and deletes the file, finished or not. Idempotent. */
  discard(): Promise<void>;
}

const [START, SEPARATOR, END] = [BODY_START, BODY_SEPARATOR, BODY_END].map((text) => Buffer.from(text)) as [
  Buffer,
  Buffer,
  Buffer,
];
const SUFFIX = '.body.json';
/** Distinguishes this process from an earlier one with the same pid, as in a restarted container. */
const PROCESS = `${process.pid}.${randomUUID()}`;

/**
 * Creates a body file in `dir`, readable by this user only, since it holds users' messages. Creates `dir` if it is missing.
 * Throws: disk errors, here and from the methods. The caller still has to call `discard`.
 */
export async function openBodyFile(dir: string): Promise<BodyFile> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, `${hostname()}.${PROCESS}.${randomUUID()}${SUFFIX}`);
  const file = await open(path, 'wx', 0o600);
  const hash = createHash('sha256');
  let gathered: Uint8Array[] = [START];
  let gatheredBytes = START.length;
  let bytes = EMPTY_BODY_BYTES;
  let count = 0;
  let isOpen = true;

  const write = async (): Promise<void> => {
    const page = Buffer.concat(gathered, gatheredBytes);
    gathered = [];
    gatheredBytes = 0;
    hash.update(page);
    // Appends the whole page at the current position, with several system calls if necessary.
    await file.writeFile(page);
  };
  const close = async (): Promise<void> => {
    if (!isOpen) return;
    isOpen = false;
    await file.close();
  };
  const requireOpen = (): void => {
    if (!isOpen) throw new Error(`The body file ${path} is already finished or discarded.`);
  };
  const discard = async (): Promise<void> => {
    await close();
    await rm(path, { force: true });
  };
  const gather = (part: Uint8Array): void => {
    gathered.push(part);
    gatheredBytes += part.length;
  };
  const bytesWith = (requestBytes: number): number => bodyBytesWith({ bytes, count }, requestBytes);

  return {
    path,
    get count() {
      return count;
    },
    get bytes() {
      return bytes;
    },
    bytesWith,
    async append(request) {
      requireOpen();
      bytes = bytesWith(request.length);
      if (count > 0) gather(SEPARATOR);
      gather(request);
      count++;
      if (gatheredBytes >= WRITE_BYTES) await write();
    },
    async finish() {
      requireOpen();
      gather(END);
      await write();
      await close();
      const sha256 = hash.digest('hex');
      return {
        path,
        bytes,
        count,
        sha256,
        discard,
        blob: () => openAsBlob(path, { type: 'application/json' }),
      };
    },
    discard,
  };
}

/** Age at which any body file is stale: no upload lasts an hour. Unit: ms. */
const STALE_AFTER_MS = 60 * 60 * 1000;

/**
 * Deletes body files that a crash has left in `dir` and returns their number; 0 when `dir` is missing.
 * A file is stale when its process, on this host, has ended, or when it is older than an hour.
 */
export async function removeStaleBodyFiles(dir: string, now: Date = new Date()): Promise<number> {
  let removed = 0;
  for (const name of await namesIn(dir)) {
    if (!name.endsWith(SUFFIX)) continue;
    const path = join(dir, name);
    if (!isOfDeadProcess(name) && !(await isOlderThan(path, now.getTime() - STALE_AFTER_MS))) continue;
    await rm(path, { force: true });
    removed++;
  }
  return removed;
}

async function namesIn(dir: string): Promise<string[]> {
  try {
    return await readdir(dir);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

function isOfDeadProcess(name: string): boolean {
  const prefix = `${hostname()}.`;
  if (!name.startsWith(prefix)) return false;
  const pid = Number.parseInt(name.slice(prefix.length), 10);
  if (pid === process.pid) return !name.startsWith(`${prefix}${PROCESS}.`);
  return Number.isSafeInteger(pid) && !isAlive(pid);
}

function isAlive(pid: number): boolean {
  try {
    // Signal 0 is not delivered; it only checks that the process exists.
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process belongs to another user. Only ESRCH means that no such process exists.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

async function isOlderThan(path: string, timeMs: number): Promise<boolean> {
  try {
    return (await stat(path)).mtimeMs < timeMs;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}
