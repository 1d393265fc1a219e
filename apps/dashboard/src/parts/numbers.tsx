const COUNT = new Intl.NumberFormat('en');
const SMALL_USD = new Intl.NumberFormat('en', { minimumFractionDigits: 4, maximumFractionDigits: 4 });
const USD = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** Writes a count with separators. */
export const count = (value: number): string => COUNT.format(value);

/** Writes "1 run", "2 runs"; "2 batches" with a plural of its own. */
export const counted = (value: number, noun: string, plural = `${noun}s`): string =>
  `${count(value)} ${value === 1 ? noun : plural}`;

/** Writes dollars; below a dollar with four digits. Null, of a model without a price, is "unknown". */
export function usd(value: string | number | null): string {
  if (value === null) return 'unknown';
  const amount = Number(value);
  return `$${(Math.abs(amount) < 1 && amount !== 0 ? SMALL_USD : USD).format(amount)}`;
}
