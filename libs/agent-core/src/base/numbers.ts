import { endOfString } from './json.ts';

/** From here on numbers print with an exponent; they are quantities, whose last digit does not matter. */
const QUANTITY_MIN = 1e21;

/**
 * Returns whether a number is kept exactly: whole numbers to the last digit unless quantities, others unless they
 * overflow.
 */
export function isKept(number: number): boolean {
  if (!Number.isInteger(number)) return Number.isFinite(number);
  return Number.isSafeInteger(number) || Math.abs(number) >= QUANTITY_MIN;
}

/** Returns whether parsing keeps a number's JSON text. A whole number without an exponent is never a quantity. */
export function keepsText(text: string): boolean {
  const number = Number(text);
  return isKept(number) && (Math.abs(number) < QUANTITY_MIN || /e/i.test(text));
}

/** Finds candidates of inexact numbers: many digits or an exponent. */
const SUSPECT = /(?:^|[[{:,\s])-?(?:\d{16}|\d+(?:\.\d+)?e)/i;
const NUMBER = /-?\d[\d.eE+-]*/y;

/** Returns the position of a JSON text's first inexact number, without building it; null if there is none. */
export function findInexact(text: string): number | null {
  if (!SUSPECT.test(text)) return null;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) i = endOfString(text, i);
    else if (code === 0x2d || (code >= 0x30 && code <= 0x39)) {
      NUMBER.lastIndex = i;
      const [number = '-'] = NUMBER.exec(text) ?? [];
      if (!keepsText(number)) return i;
      i += number.length - 1;
    }
  }
  return null;
}
