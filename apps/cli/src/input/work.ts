import type { BatchCreate, BatchRequest, TemplateVariables, UploadBatch } from '@nightshift/client';
import { CommandError } from '../failure.ts';
import { withBatchLine } from './batch-line.ts';
import { columnOf, csvRequests, templateOf, type CsvFile, type CsvOptions } from './csv-requests.ts';
import { linesOfBytes, parseLine } from './lines.ts';
import { bytesOfInput, textOfInput, type Input } from './open-input.ts';
import { keepPlaces } from './places.ts';
import { csvOptionsOf, refuseCsvFlags, type WorkFlags } from './work-flags.ts';

/** Rows of a CSV file that are sent as one part. */
const ROWS_TOGETHER = 200;

/**
 * Returns the work of a JSONL or CSV file as JSONL. It is the path itself where the file needs no change: a file can be sent
 * again, a stream cannot.
 */
export function linesOfWork(
  input: Input,
  flags: WorkFlags,
  fields: UploadBatch,
): string | AsyncIterable<Uint8Array | string> {
  refuseCsvFlags(flags, input);
  if (input.type === 'csv') return linesOfCsv(input, flags, fields);
  if (Object.keys(fields).length === 0) return input.path ?? bytesOfInput(input);
  let added = 0;
  keepPlaces(flags, { lineOf: (_, line) => (line > added ? line - added : null) });
  return withBatchLine(bytesOfInput(input), fields, input.name, () => (added = 1));
}

async function* linesOfCsv(
  input: Input,
  flags: WorkFlags,
  fields: UploadBatch,
): AsyncGenerator<string, void, undefined> {
  const options = csvOptionsOf(flags);
  const template = templateOf(options);
  const batch = { ...fields, ...(template !== undefined && { template }) };
  const isHeaded = Object.keys(batch).length > 0;
  let lines: string[] = isHeaded ? [JSON.stringify({ batch })] : [];
  for await (const request of csvRequests(openCsv(input, flags, options, isHeaded), options)) {
    lines.push(JSON.stringify(request));
    if (lines.length < ROWS_TOGETHER) continue;
    yield `${lines.join('\n')}\n`;
    lines = [];
  }
  if (lines.length > 0) yield `${lines.join('\n')}\n`;
}

/** Opens a CSV file, whose rows errors then name. `isHeaded`: a line with the batch is sent before the rows. */
function openCsv(input: Input, flags: WorkFlags, options: CsvOptions, isHeaded: boolean): CsvFile {
  const lines: number[] = [];
  keepPlaces(flags, {
    lineOf: (list, place) => lines[list === 'items' ? place : place - (isHeaded ? 2 : 1)] ?? null,
    columnOf: (field) => columnOf(field, options),
  });
  return { name: input.name, bytes: bytesOfInput(input), lines };
}

/** Reads a JSON file: the body of a batch, or a list of requests. */
export async function bodyOfJson(input: Input): Promise<BatchCreate> {
  const text = await textOfInput(input);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CommandError(
      `${input.name} is no JSON: ${(error as Error).message}. For a file with a JSON value per line add --type jsonl; nothing was stored.`,
    );
  }
  if (Array.isArray(value)) return { requests: value as BatchRequest[] };
  if (typeof value === 'object' && value !== null) return value;
  throw new CommandError(
    `${input.name} is no batch: it needs an object with requests, or a list of requests.`,
  );
}

/** Work of a file, read to be checked. */
export interface CheckedWork {
  /** Null for a fleet. */
  readonly requests: number | null;
  /** The whole work; undefined if there are more requests than wanted. */
  readonly body: BatchCreate | undefined;
}

/** Reads the whole file, and checks that each line is JSON. Keeps at most `max` requests. */
export async function checkWork(input: Input, flags: WorkFlags, max: number): Promise<CheckedWork> {
  refuseCsvFlags(flags, input);
  if (input.type === 'json') {
    const body = await bodyOfJson(input);
    const requests = body.requests?.length ?? body.inputs?.length ?? null;
    return { requests, body };
  }
  let batch: BatchCreate = {};
  let requests = 0;
  let firstLine = 1;
  const kept: object[] = [];
  for await (const item of itemsOfWork(input, flags)) {
    if (requests === 0 && 'batch' in item) {
      batch = item['batch'] as BatchCreate;
      firstLine = 2;
    } else if (++requests <= max) kept.push(item);
  }
  if (input.type === 'jsonl') keepPlaces(flags, { lineOf: (_, index) => index + firstLine });
  if (requests > max) return { requests, body: undefined };
  const work =
    batch.template == null
      ? { requests: kept as unknown as BatchRequest[] }
      : { inputs: kept as unknown as TemplateVariables[] };
  return { requests, body: { ...batch, ...work } };
}

async function* itemsOfWork(
  input: Input,
  flags: WorkFlags,
): AsyncGenerator<Readonly<Record<string, unknown>>, void> {
  if (input.type === 'csv') {
    const options = csvOptionsOf(flags);
    const template = templateOf(options);
    if (template !== undefined) yield { batch: { template } };
    const file = openCsv(input, flags, options, false);
    yield* csvRequests(file, options) as AsyncGenerator<Record<string, unknown>>;
    return;
  }
  for await (const line of linesOfBytes(bytesOfInput(input))) yield parseLine(line, input.name);
}
