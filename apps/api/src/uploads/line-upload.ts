import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { NightshiftError } from '@nightshift/agent-core';
import { errorCodes, type FastifyContextConfig, type FastifyRequest } from 'fastify';
import { allowBodyTime } from '../body-time.ts';
import type { App } from '../context.ts';
import { handedOver } from '../large-bodies/handed-over.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route takes uploads of lines beside JSON, and stores them portion by portion, or all at once. */
    takesLines?: 'in_portions' | 'at_once';
  }
}

/** Media types of uploads with a JSON value a line. */
export const LINE_TYPES = ['application/jsonl', 'application/x-ndjson'];
/** Encodings of uploads. */
export type LineCoding = 'identity' | 'gzip' | 'zstd';
const CODINGS: readonly string[] = ['identity', 'gzip', 'zstd'] satisfies LineCoding[];

/** Longest time for the rest of a refused upload. Unit: ms. */
const DISCARD_MS_MAX = 120_000;

/** Unread uploads, from the parser to the route. */
const uploads = new WeakMap<FastifyRequest, Readable>();

/** Whether a request uploads lines to a route that takes them. */
export function isLineUpload({ headers, routeOptions }: FastifyRequest): boolean {
  const [type = ''] = (headers['content-type'] ?? '').split(';', 1);
  // Unknown paths have no configuration.
  const config = routeOptions.config as FastifyContextConfig | undefined;
  return config?.takesLines !== undefined && LINE_TYPES.includes(type.trim().toLowerCase());
}

/** Passes uploads unread to the routes that take lines. */
export function acceptLines(app: App): void {
  app.addContentTypeParser(LINE_TYPES, (request, payload, done) => {
    if (!isLineUpload(request)) {
      done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE());
      return;
    }
    allowBodyTime(request);
    uploads.set(request, handedOver.getStore()?.lines ?? payload);
    done(null, undefined);
  });
  app.addHook('onResponse', async (request) => {
    const upload = uploads.get(request);
    if (upload !== undefined && !upload.readableEnded) discardUpload(request, upload);
  });
}

/** Discards the rest of a refused upload, so that its client reads the answer, and closes the connection if it takes long. */
function discardUpload({ raw: { socket } }: FastifyRequest, upload: Readable): void {
  upload.on('error', () => undefined);
  // In a thread, the main thread has the connection.
  if (!(socket instanceof Socket)) {
    upload.destroy();
    return;
  }
  const timer = setTimeout(() => socket.destroy(), DISCARD_MS_MAX).unref();
  upload.once('close', () => clearTimeout(timer));
  // The reader that was left may still listen, and would hold the upload.
  upload.removeAllListeners('readable').resume();
}

/** Returns the unread upload of a request; undefined for another request. */
export function uploadOf(request: FastifyRequest): Readable | undefined {
  return uploads.get(request);
}

/** Reads the encoding of an upload. Throws: `unsupported_media_type`. */
export function lineCodingOf({ headers }: FastifyRequest): LineCoding {
  const coding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (CODINGS.includes(coding)) return coding as LineCoding;
  throw new NightshiftError(
    'unsupported_media_type',
    `Content-Encoding ${JSON.stringify(coding)} is not known: send lines plain, or encoded as gzip or zstd.`,
  );
}
