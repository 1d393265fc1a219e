import type { Json } from '../base/json.ts';
import { findInexact, isKept } from '../base/numbers.ts';

/**
 * What keeps a value from being handed over as it was written, as a sentence, or null: numbers lose the last digits of
 * longer whole ones, such as ids, and what overflows is lost as a whole.
 */
export function inexactIn(value: Json): string | null {
  const open: Json[] = [value];
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    if (typeof part === 'object' && part !== null) {
      for (const inner of Object.values<Json>(part)) if (typeof inner !== 'string') open.push(inner);
    } else if (typeof part === 'number' && !isKept(part)) {
      return tooLong(part);
    }
  }
  return null;
}

/** The same of a JSON text, which also tells a quantity from a whole number that is written out. */
export function inexactInText(json: string): string | null {
  const place = findInexact(json);
  return place === null ? null : tooLong(Number.parseFloat(json.slice(place)));
}

function tooLong(number: number): string {
  return `it holds a number near ${number}, which is too long to be kept to the last digit: write it as a string`;
}
