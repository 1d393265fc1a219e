import { createReadStream } from 'node:fs';
import type { ResultLine } from './result-plan.ts';

/** Read buffer of a result file in bytes. */
export const READ_BYTES = 64 * 1024;

/** Yields the lines of a file one by one. */
export async function* linesOf(path: string): AsyncIterable<ResultLine> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES }) as AsyncIterable<Buffer>) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, start)) {
      yield { bytes: bytes.subarray(start, at), terminator: '\n' };
      start = at + 1;
    }
    rest = bytes.subarray(start);
  }
  if (rest.length > 0) yield { bytes: rest, terminator: '' };
}
