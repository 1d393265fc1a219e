import type { Json } from '../base/json.ts';
import { findInexact, isKept } from '../base/numbers.ts';

/**
 * Describes a number that cannot be kept exactly, as a sentence; null if all can.
 * Long whole numbers, such as ids, lose their last digits, and overflow loses everything.
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

/** Checks a JSON text as {@link inexactIn}; the text also tells an exponent from a whole number. */
export function inexactInText(json: string): string | null {
  const place = findInexact(json);
  return place === null ? null : tooLong(Number.parseFloat(json.slice(place)));
}

function tooLong(number: number): string {
  return `it holds a number near ${number}, which is too long to be kept to the last digit: write it as a string`;
}
