/**
 * Formats billionths of a US dollar as an exact decimal, at least to the cent: `1234500000` → `1.2345`.
 * Null stays null, as unknown is not zero.
 */
export function toUsd<T extends number | null>(nanoUsd: T): T extends number ? string : string | null;
export function toUsd(nanoUsd: number | null): string | null {
  if (nanoUsd === null) return null;
  const fraction = String(nanoUsd % 1_000_000_000).padStart(9, '0');
  return `${Math.trunc(nanoUsd / 1_000_000_000)}.${fraction.replace(/0{1,7}$/, '')}`;
}
