import { holdsInexact, JSON_DEPTH_MAX, jsonDepth, keepsText, NightshiftError } from '@nightshift/agent-core';
import type { App } from './context.ts';
import { sentence } from './errors/answer-of.ts';

/** Largest body of a route that takes no batch. */
export const BODY_LIMIT_BYTES = 16 * 1024 * 1024;
/** Largest body that makes a batch: what Letta allows. */
export const BATCH_BODY_LIMIT_BYTES = 256 * 1024 * 1024;
/** Bytes of all bodies that are held at once: two of the largest. */
export const BODY_BYTES_TOGETHER_MAX = 2 * BATCH_BODY_LIMIT_BYTES;

/**
 * Accepts `application/json` and nothing else. Nesting is measured before anything is built; `__proto__` and the like are
 * errors; so is a number that would lose digits, because no id is altered in silence; an empty body counts as none, because clients send `content-type` with bodiless requests too.
 */
export function acceptJsonOnly(app: App): void {
  app.removeAllContentTypeParsers();
  const parse = app.getDefaultJsonParser('error', 'error');
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') {
      done(null, undefined);
    } else if (jsonDepth(body) > JSON_DEPTH_MAX) {
      done(new NightshiftError('invalid_argument', `The body nests deeper than ${JSON_DEPTH_MAX} levels.`));
    } else {
      void parse(request, body, (error: Error | null, value?: unknown) => {
        if (error === null) done(holdsInexact(body) ? inexact(body) : null, value);
        else done(new NightshiftError('validation_failed', whyNot(body)));
      });
    }
  });
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

/** What the engine tells of a value beside it; the types of ES2024 do not know it yet. */
interface ParseContext {
  readonly source?: string;
}

/** Names the first number of a body that would not be what was written. */
function inexact(body: string): NightshiftError {
  const lost = Symbol('lost');
  const root: unknown = JSON.parse(body, (_key, value: unknown, { source }: ParseContext = {}) =>
    typeof value === 'number' && !keepsText(source ?? '') ? lost : value,
  );
  const path = (pathTo(root, lost) ?? []).map((part) => `/${part}`).join('');
  const message = 'is a number that cannot be kept to the last digit: write it as a string';
  return new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] });
}

/** The keys that lead to a value, or null; nesting is bounded before. */
function pathTo(root: unknown, wanted: symbol): readonly string[] | null {
  if (root === wanted) return [];
  if (typeof root !== 'object' || root === null) return null;
  for (const [key, value] of Object.entries(root)) {
    const rest = pathTo(value, wanted);
    if (rest !== null) return [key, ...rest];
  }
  return null;
}
