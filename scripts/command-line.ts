/** @throws an error that names `name`, unless `text` is a whole number within the bounds. */
export function wholeNumber(name: string, text: string, from = 1, to = Number.MAX_SAFE_INTEGER): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= from && value <= to) return value;
  const range = to === Number.MAX_SAFE_INTEGER ? `from ${from} on` : `from ${from} to ${to}`;
  throw new Error(`${name} must be a whole number ${range}, not '${text}'.`);
}
