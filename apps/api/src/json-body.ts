import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { isError, isJsonObject, NightshiftError } from '@nightshift/agent-core';
import { BATCH_BYTES_MAX } from '@nightshift/intake';
import { holdMore } from './body-budget.ts';
import type { FastifyRequest } from 'fastify';
import type { App } from './context.ts';
import { markLarge } from './large-bodies/hand-over.ts';
import { handedOver } from './large-bodies/handed-over.ts';
import { createJsonParser, type ParseJson } from './parse-json.ts';
import { acceptLines } from './uploads/line-upload.ts';
import { readBody, type BodyParts } from './read-body.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether an error may not quote the body. */
    hidesBody?: boolean;
  }
  interface FastifyRequest {
    /** SHA-256 of the raw body in hex; only on routes that take large bodies. */
    bodySha256: string;
  }
}

/** Largest body for the main thread. The thread of large bodies handles larger bodies. Unit: bytes. */
export const SMALL_BODY_BYTES_MAX = 65_536;

/** Largest body of routes without batches or appended messages. */
export const BODY_LIMIT_BYTES = 16 * 1024 * 1024;
/** Most values in such a body. A value may take two bytes as text, and fifty or more when parsed. */
export const BODY_VALUES_MAX = 1_000_000;
/** Most values in the body of a batch: 200 for each request of the largest batch. */
export const BATCH_BODY_VALUES_MAX = 20_000_000;
/** Estimated memory of a parsed value. Unit: bytes. An empty object takes 64 bytes and counts as two values. */
const VALUE_BYTES = 32;
/** Limit of all bodies, their values and rendered templates together: two of the largest bodies. Unit: bytes. */
export const BODY_BYTES_TOGETHER_MAX = 2 * BATCH_BYTES_MAX;

/**
 * Accepts only unencoded `application/json` in UTF-8, and uploads of lines on routes that take them.
 * Checks nesting and the number of values before parsing, and takes the values' memory from the budget. Refuses `__proto__` and
 * similar keys, invalid UTF-8, and numbers that would lose digits. An empty body counts as absent: clients send `content-type`
 * without a body too.
 * With `handsOver`, the thread of large bodies handles large bodies and templates, which may take seconds.
 */
export function acceptJsonOnly(app: App, handsOver: boolean): void {
  app.removeAllContentTypeParsers();
  acceptLines(app);
  app.decorateRequest('bodySha256', '');
  const parse = createJsonParser(app);
  const work = (request: FastifyRequest, parts: BodyParts): unknown => {
    const length = parts.reduce((sum, part) => sum + part.length, 0);
    if (length > 0 && isEncoded(request.headers['content-encoding'])) {
      const message = 'The body has a Content-Encoding, and encoded bodies are not accepted.';
      throw new NightshiftError('unsupported_media_type', message);
    }
    const isLarge = handsOver && length > SMALL_BODY_BYTES_MAX;
    const value = isLarge ? undefined : parseBody(request, parts, parse);
    if (isLarge || (handsOver && hasTemplate(request, value))) markLarge(request, parts);
    return value;
  };
  app.addContentTypeParser('application/json', (request, payload, done) => {
    const take = (error: Error | null, parts: BodyParts): void => {
      let value: unknown;
      try {
        if (error !== null) throw error;
        value = work(request, parts);
      } catch (refusal) {
        done(refusal as Error);
        return;
      }
      done(null, value);
    };
    const handed = handedOver.getStore();
    if (handed === undefined) {
      readBody(request, payload, take);
      return;
    }
    const { body } = handed;
    // Free the parts: database connections may keep the store for long.
    handed.body = [];
    take(null, body);
  });
}

/**
 * Parses a whole body.
 * Throws: `validation_failed`, `invalid_argument`, `payload_too_large` or `not_ready`.
 */
function parseBody(request: FastifyRequest, parts: BodyParts, parse: ParseJson): unknown {
  const bytes = Buffer.concat(parts);
  if (!isUtf8(bytes))
    throw new NightshiftError('validation_failed', 'The body is not UTF-8, which JSON requires.');
  if (takesLargeBody(request)) request.bodySha256 = createHash('sha256').update(bytes).digest('hex');
  const body = bytes.toString();
  if (body === '') return undefined;
  const valuesMax = takesLargeBody(request) ? BATCH_BODY_VALUES_MAX : BODY_VALUES_MAX;
  try {
    return parse(body, 'The body', valuesMax, (values) => holdMore(request, values * VALUE_BYTES));
  } catch (error) {
    const isHidden = request.routeOptions.config.hidesBody === true;
    if (!isHidden || !isError(error, 'validation_failed') || error.fields.length > 0) throw error;
    throw new NightshiftError(
      'validation_failed',
      'The body is not JSON, or holds a key that would change a prototype.',
    );
  }
}

/** Whether the route creates or estimates batches, or appends messages. */
function takesLargeBody({ routeOptions }: FastifyRequest): boolean {
  return routeOptions.bodyLimit > BODY_LIMIT_BYTES;
}

/** Tells whether a body has a template to render: a single input may take seconds. */
function hasTemplate(request: FastifyRequest, body: unknown): boolean {
  if (!takesLargeBody(request) || !isJsonObject(body)) return false;
  // The body of a schedule holds the body of a batch.
  const batch = isJsonObject(body['body']) ? body['body'] : body;
  return batch['template'] != null || batch['input'] != null;
}

/** Encodings that change nothing, and charsets, which some clients send there by mistake. */
const NO_CODINGS: ReadonlySet<string> = new Set(['', 'identity', 'utf-8', 'utf8']);

function isEncoded(codings = ''): boolean {
  return codings.split(',').some((coding) => !NO_CODINGS.has(coding.trim().toLowerCase()));
}
