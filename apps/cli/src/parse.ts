import { InvalidArgumentError } from 'commander';

/** Reads a whole number of at least `min`; a flag's parser. */
export function wholeNumber(min = 1): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== '' && Number.isSafeInteger(value) && value >= min) return value;
    throw new InvalidArgumentError(`Give a whole number of at least ${min}.`);
  };
}

/** Reads a number above 0; a flag's parser. */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (value > 0 && Number.isFinite(value)) return value;
  throw new InvalidArgumentError('Give a number above 0.');
}

/** Gathers the values of a flag that may be repeated. */
export function gather(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text];
}

/** Gathers the values of a flag that may be repeated, or hold several with commas between. */
export function gatherList(text: string, before: readonly string[] | undefined): readonly string[] {
  const values = text.split(',').map((value) => value.trim());
  return [...(before ?? []), ...values.filter((value) => value !== '')];
}
