import { createReadStream, existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { CommandError } from '../failure.ts';

/** Kinds of files with work. */
export type InputType = 'jsonl' | 'json' | 'csv';

/** A file or standard input. */
export interface Input {
  /** Path; null for standard input. */
  readonly path: string | null;
  /** For messages. */
  readonly name: string;
  readonly type: InputType;
  readonly encoding: 'gzip' | 'zstd' | 'identity';
}

const TYPES: Readonly<Record<string, InputType>> = {
  jsonl: 'jsonl',
  ndjson: 'jsonl',
  json: 'json',
  csv: 'csv',
  tsv: 'csv',
};

/** Tells the kind of a file by its name, or by `type`. Throws: a usage error for an unknown name without `type`. */
export function inputOf(file: string, type: InputType | undefined): Input {
  if (file === '-')
    return { path: null, name: 'standard input', type: type ?? 'jsonl', encoding: 'identity' };
  const [, stem = file, packed] = /^(.*)\.(gz|zst)$/i.exec(file) ?? [];
  const known = TYPES[/\.([^./\\]+)$/.exec(stem)?.[1]?.toLowerCase() ?? ''];
  const chosen = type ?? known;
  if (chosen === undefined)
    throw new CommandError(
      `The name of ${file} does not tell its kind. Add --type jsonl, --type json or --type csv.`,
    );
  const encoding = packed === undefined ? 'identity' : packed.toLowerCase() === 'gz' ? 'gzip' : 'zstd';
  return { path: file, name: file, type: chosen, encoding };
}

/** Tells the kind of a file that is there. Throws: a usage error, as {@link inputOf}, and for a missing file. */
export function inputOnDisk(file: string, type: InputType | undefined): Input {
  const input = inputOf(file, type);
  if (input.path !== null && !existsSync(input.path))
    throw new CommandError(`${file} does not exist. Check its path.`);
  return input;
}

/** Yields the bytes of an input, decoded. Throws: a command error if a file is damaged, or changes meanwhile. */
export async function* bytesOfInput({
  path,
  name,
  encoding,
}: Input): AsyncGenerator<Buffer, void, undefined> {
  const before = path === null ? undefined : await stampOf(path);
  const source: Readable = path === null ? process.stdin : createReadStream(path);
  try {
    yield* decoded(source, encoding, name);
  } finally {
    if (path !== null) source.destroy();
  }
  if (path !== null && before !== (await stampOf(path)))
    throw new CommandError(
      `${name} changed while it was read; nothing was stored. Send it again when it is complete.`,
    );
}

/** Reads an input as text. */
export async function textOfInput(input: Input): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of bytesOfInput(input)) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function* decoded(
  source: Readable,
  encoding: Input['encoding'],
  name: string,
): AsyncGenerator<Buffer, void> {
  if (encoding === 'identity') {
    yield* source as AsyncIterable<Buffer>;
    return;
  }
  const decoder = encoding === 'gzip' ? createGunzip() : createZstdDecompress();
  pipeline(source, decoder, () => undefined);
  try {
    yield* decoder as AsyncIterable<Buffer>;
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    if (!code.startsWith('Z') && !code.startsWith('ERR_')) throw error;
    throw new CommandError(`${name} is cut, or is not ${encoding}: ${message}. Pack it again.`);
  }
}

async function stampOf(path: string): Promise<string> {
  const { size, mtimeNs, ino } = await stat(path, { bigint: true });
  return [size, mtimeNs, ino].join('/');
}
