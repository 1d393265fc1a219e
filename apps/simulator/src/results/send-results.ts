import { createReadStream } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { constants, createGzip } from 'node:zlib';
import { READ_BYTES, linesOf } from './read-lines.ts';
import type { CutManner, ResultLine, ResultPlan } from './result-plan.ts';

async function* joined(lines: AsyncIterable<ResultLine>): AsyncIterable<Buffer> {
  let pieces: Buffer[] = [];
  let size = 0;
  for await (const { bytes, terminator } of lines) {
    pieces.push(bytes, Buffer.from(terminator));
    size += bytes.length;
    if (size < READ_BYTES) continue;
    yield Buffer.concat(pieces);
    pieces = [];
    size = 0;
  }
  if (pieces.length > 0) yield Buffer.concat(pieces);
}

async function* stoppedAfter(bytes: number, chunks: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  let left = bytes;
  for await (const chunk of chunks) {
    if (chunk.length >= left) {
      if (left > 0) yield chunk.subarray(0, left);
      return;
    }
    left -= chunk.length;
    yield chunk;
  }
}

async function* inPieces(bytes: number, chunks: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += bytes) yield chunk.subarray(at, at + bytes);
  }
}

async function* trickled(bytesPerSecond: number, chunks: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  const piece = Math.max(1, Math.floor(bytesPerSecond / 20));
  for await (const chunk of inPieces(piece, chunks)) {
    yield chunk;
    await sleep((chunk.length / bytesPerSecond) * 1000, undefined, { ref: false });
  }
}

async function* stalled(atBytes: number, ms: number, chunks: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  let seen = 0;
  let waited = false;
  for await (const chunk of chunks) {
    const before = waited ? chunk.length : Math.min(chunk.length, Math.max(0, atBytes - seen));
    if (before > 0) yield chunk.subarray(0, before);
    seen += chunk.length;
    if (before === chunk.length && seen < atBytes) continue;
    if (!waited) await sleep(ms, undefined, { ref: false });
    waited = true;
    if (before < chunk.length) yield chunk.subarray(before);
  }
}

function chunksOf(plan: ResultPlan): AsyncIterable<Buffer> {
  let chunks: AsyncIterable<Buffer>;
  if (plan.edits.length === 0) chunks = createReadStream(plan.path, { highWaterMark: READ_BYTES });
  else chunks = joined(plan.edits.reduce((lines, edit) => edit(lines), linesOf(plan.path)));
  if (plan.stopAfterBytes !== null) chunks = stoppedAfter(plan.stopAfterBytes, chunks);
  if (plan.stall !== null) chunks = stalled(plan.stall.atBytes, plan.stall.ms, chunks);
  if (plan.chunkBytes !== null) chunks = inPieces(plan.chunkBytes, chunks);
  return plan.bytesPerSecond === null ? chunks : trickled(plan.bytesPerSecond, chunks);
}

/** Compresses chunk by chunk; a cut stream lacks its end. */
async function* gzipped(chunks: AsyncIterable<Buffer>, isCut: boolean): AsyncIterable<Buffer> {
  const gzip = createGzip({ level: 1 });
  const compressed: Buffer[] = [];
  gzip.on('data', (piece: Buffer) => compressed.push(piece));
  for await (const chunk of chunks) {
    if (!gzip.write(chunk)) await once(gzip, 'drain');
    yield* compressed.splice(0);
  }
  if (isCut) await new Promise<void>((resolve) => gzip.flush(constants.Z_SYNC_FLUSH, () => resolve()));
  else {
    gzip.end();
    await once(gzip, 'end');
  }
  yield* compressed.splice(0);
}

function finish(response: ServerResponse, cut: CutManner | null): void {
  const { socket } = response;
  if (cut === 'rst') socket?.resetAndDestroy();
  else if (cut === 'fin' || cut === 'short_content_length') socket?.end();
  else response.end();
}

/** Resolves when the client has read enough, or has disconnected. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    };
    response.on('drain', done);
    response.on('close', done);
  });
}

/** The result of a reply. */
export interface SendReport {
  readonly bytes: number;
  readonly outcome: 'answered' | 'cut' | 'client_aborted';
}

/** Streams results by the plan, no faster than the client reads, with `headers` besides those of the plan. */
export async function sendResults(
  response: ServerResponse,
  plan: ResultPlan,
  headers: Readonly<Record<string, string>>,
): Promise<SendReport> {
  const own: Record<string, string> = { ...headers };
  if (plan.contentType !== null) own['content-type'] = plan.contentType;
  if (plan.gzip) own['content-encoding'] = 'gzip';
  if (plan.cut === 'short_content_length') own['content-length'] = String(plan.totalBytes);
  if (plan.cut === 'close_delimited') {
    response.useChunkedEncodingByDefault = false;
    response.shouldKeepAlive = false;
  }
  response.writeHead(200, own);
  response.flushHeaders();
  let bytes = 0;
  const chunks = plan.gzip ? gzipped(chunksOf(plan), plan.cut !== null) : chunksOf(plan);
  for await (const chunk of chunks) {
    if (response.destroyed) return { bytes, outcome: 'client_aborted' };
    bytes += chunk.length;
    if (response.write(chunk)) continue;
    await drained(response);
  }
  if (response.destroyed) return { bytes, outcome: 'client_aborted' };
  // The written bytes must reach the client before the connection is cut.
  if (plan.cut === 'rst') await new Promise((resolve) => response.write('', resolve));
  finish(response, plan.cut);
  if (!response.closed && plan.cut !== 'rst') await once(response, 'close').catch(() => undefined);
  return { bytes, outcome: plan.cut === null ? 'answered' : 'cut' };
}
