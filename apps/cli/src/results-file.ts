import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { rename, rm, truncate } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { CommandError, EXIT } from './failure.ts';

/** Part of a file of results that an earlier download left. */
export interface PartFile {
  readonly path: string;
  /** Complete lines. */
  readonly lines: number;
  /** Cursor of the last line. */
  readonly cursor: string;
}

const LINE_FEED = 0x0a;

/** Path under which a file of results grows until it is complete. */
export function partPathOf(file: string): string {
  return `${file}.part`;
}

/** Finds the part of an earlier download, and removes a cut line at its end. Packed files are not continued. */
export async function findPart(file: string): Promise<PartFile | undefined> {
  const path = partPathOf(file);
  if (file.endsWith('.gz') || !existsSync(path)) return undefined;
  let lines = 0;
  let offset = 0;
  /** Offsets of the last line and of its end. */
  let from = 0;
  let to = 0;
  for await (const part of createReadStream(path) as AsyncIterable<Buffer>) {
    for (let at = part.indexOf(LINE_FEED); at !== -1; at = part.indexOf(LINE_FEED, at + 1)) {
      lines += 1;
      from = to;
      to = offset + at + 1;
    }
    offset += part.length;
  }
  if (lines === 0) return undefined;
  const cursor = await cursorOf(path, from, to);
  if (cursor === undefined) return undefined;
  await truncate(path, to);
  return { path, lines, cursor };
}

async function cursorOf(path: string, from: number, to: number): Promise<string | undefined> {
  const parts: Buffer[] = [];
  for await (const part of createReadStream(path, { start: from, end: to - 1 }) as AsyncIterable<Buffer>)
    parts.push(part);
  try {
    const { cursor } = JSON.parse(Buffer.concat(parts).toString()) as { readonly cursor?: unknown };
    return typeof cursor === 'string' ? cursor : undefined;
  } catch {
    return undefined;
  }
}

/** Writes texts to the part of a file, behind `part` if there is one. Throws: a command error for a full disk. */
export async function writePart(
  file: string,
  texts: AsyncIterable<string>,
  part: PartFile | undefined,
): Promise<void> {
  const path = partPathOf(file);
  const target = createWriteStream(path, { flags: part === undefined ? 'w' : 'a', flush: true });
  try {
    const source = Readable.from(texts);
    await (file.endsWith('.gz') ? pipeline(source, createGzip(), target) : pipeline(source, target));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    throw new CommandError(
      `The disk of ${file} is full. Free space and run the command again: it goes on behind the last line of ${path}.`,
      EXIT.failed,
    );
  }
}

/** Gives a complete file its name. */
export async function completePart(file: string): Promise<void> {
  await rename(partPathOf(file), file);
}

/** Removes a part that cannot be continued. */
export async function removePart(file: string): Promise<void> {
  await rm(partPathOf(file), { force: true });
}
