import { endOfString } from './json.ts';

/** From here on numbers are printed with an exponent: quantities, of which nobody expects the last digit. */
const QUANTITY_MIN = 1e21;

/** Whether a number can be what was written: a whole one to the last digit, unless it is a quantity; any other but for overflow. */
export function isKept(number: number): boolean {
  if (!Number.isInteger(number)) return Number.isFinite(number);
  return Number.isSafeInteger(number) || Math.abs(number) >= QUANTITY_MIN;
}

/** Whether a number keeps what its text in JSON says; a whole one that is written out is never a quantity. */
export function keepsText(text: string): boolean {
  const number = Number(text);
  return isKept(number) && (Math.abs(number) < QUANTITY_MIN || /e/i.test(text));
}

/** What a number may be that is not kept: with fewer digits and no exponent it always is. */
const SUSPECT = /(?:^|[[{:,\s])-?(?:\d{16}|\d+(?:\.\d+)?e)/i;
const NUMBER = /-?\d[\d.eE+-]*/y;

/** Where the first number of a JSON text stands that is not kept, read without building it; null without one. */
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
