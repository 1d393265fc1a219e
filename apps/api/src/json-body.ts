import { isUtf8 } from 'node:buffer';
import { findInexact, JSON_DEPTH_MAX, measureJson, NightshiftError, pointerTo } from '@nightshift/agent-core';
import { holdMore } from './body-budget.ts';
import type { App } from './context.ts';
import { sentence } from './errors/answer-of.ts';

/** Largest body of a route that takes no batch. */
export const BODY_LIMIT_BYTES = 16 * 1024 * 1024;
/** Largest body that makes a batch: what Letta allows. */
export const BATCH_BODY_LIMIT_BYTES = 256 * 1024 * 1024;
/** Values of a body of a route that takes no batch. A value may take two bytes as text, and fifty and more once it is built. */
const BODY_VALUES_MAX = 1_000_000;
/** Values of a body that makes a batch: 200 for each request of the longest. */
export const BATCH_BODY_VALUES_MAX = 20_000_000;
/** Bytes that a value takes once it is built, as they are counted: those of an empty object, which counts as two, are 64. */
const VALUE_BYTES = 32;
/** Bytes of all bodies that are held at once, of their values, and of the texts that templates come to: two of the largest bodies. */
export const BODY_BYTES_TOGETHER_MAX = 2 * BATCH_BODY_LIMIT_BYTES;

/**
 * Accepts `application/json` in UTF-8, not encoded, and nothing else. Nesting and values are measured before anything is built, and the values
 * held with the body; `__proto__` and the like are errors; so are bytes that are no text and a number that would lose digits,
 * because nothing is altered in silence. An empty body counts as none: clients send `content-type` with bodiless requests too.
 */
export function acceptJsonOnly(app: App): void {
  app.removeAllContentTypeParsers();
  const parse = app.getDefaultJsonParser('error', 'error');
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, bytes, done) => {
    if (bytes.length > 0 && isEncoded(request.headers['content-encoding'])) {
      const message = 'The body has a Content-Encoding, and encoded bodies are not taken.';
      done(new NightshiftError('unsupported_media_type', message));
      return;
    }
    if (!isUtf8(bytes)) {
      done(new NightshiftError('validation_failed', 'The body is not UTF-8, as JSON has to be.'));
      return;
    }
    const body = bytes.toString();
    const valuesMax =
      request.routeOptions.bodyLimit > BODY_LIMIT_BYTES ? BATCH_BODY_VALUES_MAX : BODY_VALUES_MAX;
    const { depth, values } = measureJson(body, { depth: JSON_DEPTH_MAX, values: valuesMax });
    if (body === '') {
      done(null, undefined);
    } else if (depth > JSON_DEPTH_MAX) {
      done(new NightshiftError('invalid_argument', `The body nests deeper than ${JSON_DEPTH_MAX} levels.`));
    } else if (values > valuesMax) {
      done(tooMany(valuesMax));
    } else {
      holdMore(request, values * VALUE_BYTES);
      void parse(request, body, (error: Error | null, value?: unknown) => {
        if (error === null) done(inexact(body), value);
        else done(new NightshiftError('validation_failed', whyNot(body)));
      });
    }
  });
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

/** Names the first number of a body that would not be what was written; null where there is none. */
function inexact(body: string): NightshiftError | null {
  const place = findInexact(body);
  if (place === null) return null;
  const path = pointerTo(body, place);
  const message = 'is a number that cannot be kept to the last digit: write it as a string';
  const what = path === '' ? 'The body' : path;
  return new NightshiftError('validation_failed', `${what} ${message}.`, { fields: [{ path, message }] });
}
