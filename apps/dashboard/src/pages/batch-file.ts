import type { Batch, BatchCreate, BatchRequest } from '@nightshift/client';
import { nightshift } from '../api/client.ts';

/** Read of a file for the estimate. Units: bytes, requests. */
const SAMPLE_BYTES = 512 * 1_024;
const SAMPLE_REQUESTS = 1_000;

/** Tells whether a file is packed: its lines cannot be read here, and nothing can be put before them. */
export const isPacked = ({ name }: File): boolean => /\.(gz|zst)$/.test(name);

/** The first requests of a file. */
export interface FileSample {
  readonly requests: BatchRequest[];
  /** False if there is more in the file. */
  readonly isWhole: boolean;
  /** The file has the settings of its batch in its first line. */
  readonly hasSettings: boolean;
}

/** Reads the first requests of a file. Throws: an error with the line that is no JSON. */
export async function readSample(file: File): Promise<FileSample> {
  const text = await file.slice(0, SAMPLE_BYTES).text();
  const lines = text.split('\n');
  // The last line may be cut.
  const isRead = file.size <= SAMPLE_BYTES;
  const whole = isRead ? lines : lines.slice(0, -1);
  const items = whole
    .slice(0, SAMPLE_REQUESTS + 1)
    .flatMap((line, place) => (line.trim() === '' ? [] : [parseLine(line, place + 1)]));
  const hasSettings = 'batch' in (items[0] ?? {});
  return {
    // The API says what is wrong with a request.
    requests: items.slice(hasSettings ? 1 : 0) as unknown as BatchRequest[],
    isWhole: isRead && whole.length <= SAMPLE_REQUESTS + 1,
    hasSettings,
  };
}

function parseLine(line: string, number: number): object {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // The message below says it.
  }
  throw new Error(
    `Line ${number} of the file is no JSON object. Each line is a request, or an input of a template.`,
  );
}

/** Sends a file as a batch; the settings go before it as its first line. */
export function sendFile(
  file: File,
  settings: BatchCreate,
  hasSettings: boolean,
  idempotencyKey: string,
): Promise<Batch> {
  const encoding = file.name.endsWith('.gz') ? 'gzip' : file.name.endsWith('.zst') ? 'zstd' : 'identity';
  const isAsItIs = hasSettings || isPacked(file) || Object.keys(settings).length === 0;
  const whole = isAsItIs ? file : new Blob([JSON.stringify({ batch: settings }), '\n', file]);
  return nightshift.batches.createFromFile(whole, { encoding, idempotencyKey });
}
