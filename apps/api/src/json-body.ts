import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import {
  findInexact,
  isJsonObject,
  JSON_DEPTH_MAX,
  measureJson,
  NightshiftError,
  pointerTo,
} from '@nightshift/agent-core';
import { BATCH_BYTES_MAX, sentence } from '@nightshift/intake';
import { holdMore } from './body-budget.ts';
import type { FastifyRequest } from 'fastify';
import type { App } from './context.ts';
import { markLarge } from './large-bodies/hand-over.ts';
import { handedOver } from './large-bodies/handed-over.ts';
import { readBody, type BodyParts } from './read-body.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** SHA-256 of the body as it came, in hex; only on routes that make batches. */
    bodySha256: string;
  }
}

/** Bytes of the largest body that is worked on beside other requests; a larger one has the thread of large bodies. */
export const SMALL_BODY_BYTES_MAX = 65_536;

/** Largest body of a route that takes no batch. */
export const BODY_LIMIT_BYTES = 16 * 1024 * 1024;
/** Values of a body of a route that takes no batch. A value may take two bytes as text, and fifty and more once it is built. */
const BODY_VALUES_MAX = 1_000_000;
/** Values of a body that makes a batch: 200 for each request of the longest. */
export const BATCH_BODY_VALUES_MAX = 20_000_000;
/** Bytes that a value takes once it is built, as they are counted: those of an empty object, which counts as two, are 64. */
const VALUE_BYTES = 32;
/** Bytes of all bodies that are held at once, of their values, and of the texts that templates come to: two of the largest bodies. */
export const BODY_BYTES_TOGETHER_MAX = 2 * BATCH_BYTES_MAX;

/**
 * Accepts `application/json` in UTF-8, not encoded, and nothing else. Nesting and values are measured before anything is built, and the values
 * held with the body; `__proto__` and the like are errors; so are bytes that are no text and a number that would lose digits,
 * because nothing is altered in silence. An empty body counts as none: clients send `content-type` with bodiless requests too.
 * With `handsOver`, large bodies and templates, which may take seconds, are left to the thread of large bodies.
 */
export function acceptJsonOnly(app: App, handsOver: boolean): void {
  app.removeAllContentTypeParsers();
  app.decorateRequest('bodySha256', '');
  const parse = app.getDefaultJsonParser('error', 'error');
  const work = (request: FastifyRequest, parts: BodyParts): unknown => {
    const length = parts.reduce((sum, part) => sum + part.length, 0);
    if (length > 0 && isEncoded(request.headers['content-encoding'])) {
      const message = 'The body has a Content-Encoding, and encoded bodies are not taken.';
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
    // Connections to the database may keep the store for long.
    handed.body = [];
    take(null, body);
  });
}

/** Parses a whole body in one go. Throws `validation_failed`, `invalid_argument`, `payload_too_large` or `not_ready`. */
function parseBody(
  request: FastifyRequest,
  parts: BodyParts,
  parse: ReturnType<App['getDefaultJsonParser']>,
): unknown {
  const bytes = Buffer.concat(parts);
  if (!isUtf8(bytes))
    throw new NightshiftError('validation_failed', 'The body is not UTF-8, as JSON has to be.');
  if (makesBatch(request)) request.bodySha256 = createHash('sha256').update(bytes).digest('hex');
  const body = bytes.toString();
  if (body === '') return undefined;
  const valuesMax = makesBatch(request) ? BATCH_BODY_VALUES_MAX : BODY_VALUES_MAX;
  const { depth, values } = measureJson(body, { depth: JSON_DEPTH_MAX, values: valuesMax });
  if (depth > JSON_DEPTH_MAX)
    throw new NightshiftError('invalid_argument', `The body nests deeper than ${JSON_DEPTH_MAX} levels.`);
  if (values > valuesMax) throw tooMany(valuesMax);
  holdMore(request, values * VALUE_BYTES);
  let value: unknown;
  void parse(request, body, (error: Error | null, parsed?: unknown) => {
    if (error !== null) throw new NightshiftError('validation_failed', whyNot(body));
    value = parsed;
  });
  const place = findInexact(body);
  if (place !== null) throw inexact(pointerTo(body, place));
  return value;
}

function makesBatch({ routeOptions }: FastifyRequest): boolean {
  return routeOptions.bodyLimit > BODY_LIMIT_BYTES;
}

/** Whether a body asks for the inputs of a template to be filled in: one input alone may take seconds. */
function hasTemplate(request: FastifyRequest, body: unknown): boolean {
  return makesBatch(request) && isJsonObject(body) && body['template'] != null;
}

/** What changes nothing, and a charset, which some clients name there by mistake. */
const NO_CODINGS: ReadonlySet<string> = new Set(['', 'identity', 'utf-8', 'utf8']);

function isEncoded(codings = ''): boolean {
  return codings.split(',').some((coding) => !NO_CODINGS.has(coding.trim().toLowerCase()));
}

function tooMany(valuesMax: number): NightshiftError {
  return new NightshiftError(
    'payload_too_large',
    `The body holds more than ${valuesMax.toLocaleString('en')} values, lists and objects among them.`,
  );
}

/** Why a body was refused, in the words of the engine, which name the place. */
function whyNot(body: string): string {
  try {
    JSON.parse(body);
  } catch (error) {
    return sentence(`The body is not JSON: ${(error as Error).message}`);
  }
  return 'The body holds a key that would change a prototype (__proto__, or prototype in constructor).';
}

/** A number of a body that would not be what was written. */
function inexact(path: string): NightshiftError {
  const message = 'is a number that cannot be kept to the last digit: write it as a string';
  const what = path === '' ? 'The body' : path;
  return new NightshiftError('validation_failed', `${what} ${message}.`, { fields: [{ path, message }] });
}
