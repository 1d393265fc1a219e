import {
  findInexact,
  JSON_DEPTH_MAX,
  measureJson,
  NightshiftError,
  NO_NUMBER,
  pointerTo,
} from '@nightshift/agent-core';
import { sentence } from '@nightshift/intake';
import type { FastifyRequest } from 'fastify';
import type { App } from './context.ts';

/** Parses JSON; `name` is its subject in errors, such as `The body`. Throws: `validation_failed`, `invalid_argument` or `payload_too_large`. */
export type ParseJson = (
  text: string,
  name: string,
  valuesMax: number,
  hold?: (values: number) => void,
) => unknown;

/**
 * Creates the parser of bodies and lines. It checks nesting and the number of values before it parses, and passes that number to
 * `hold`. Refuses `__proto__` and similar keys, and numbers that would lose digits.
 */
export function createJsonParser(app: App): ParseJson {
  const parse = app.getDefaultJsonParser('error', 'error');
  return (text, name, valuesMax, hold) => {
    const { depth, values } = measureJson(text, { depth: JSON_DEPTH_MAX, values: valuesMax });
    if (depth > JSON_DEPTH_MAX)
      throw new NightshiftError('invalid_argument', `${name} nests deeper than ${JSON_DEPTH_MAX} levels.`);
    if (values > valuesMax) throw tooMany(name, valuesMax);
    hold?.(values);
    let value: unknown;
    // The parser does not use the request.
    void parse(undefined as unknown as FastifyRequest, text, (error: Error | null, parsed?: unknown) => {
      if (error !== null) throw new NightshiftError('validation_failed', parseErrorOf(text, name));
      value = parsed;
    });
    const place = findInexact(text);
    if (place !== null)
      throw inexact(name, pointerTo(text, place), Number.isFinite(Number.parseFloat(text.slice(place))));
    return value;
  };
}

function tooMany(name: string, valuesMax: number): NightshiftError {
  return new NightshiftError(
    'payload_too_large',
    `${name} holds more than ${valuesMax.toLocaleString('en')} values, including lists and objects.`,
  );
}

/** Returns the engine's reason for a refused text, with the position. */
function parseErrorOf(text: string, name: string): string {
  try {
    JSON.parse(text);
  } catch (error) {
    return sentence(`${name} is not JSON: ${(error as Error).message}`);
  }
  return `${name} holds a key that would change a prototype (__proto__, or prototype in constructor).`;
}

/** Reports a number that overflows in the words of a field that is no number, or a whole number that would lose digits. */
function inexact(name: string, path: string, isFinite: boolean): NightshiftError {
  const message = isFinite
    ? 'must be a whole number of at most 2^53, or a string if the field takes text: it would lose digits'
    : NO_NUMBER;
  const what = path === '' ? name : path;
  return new NightshiftError('validation_failed', `${what} ${message}.`, { fields: [{ path, message }] });
}
