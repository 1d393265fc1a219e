/** Writes a count with thousands. */
export function countOf(count: number): string {
  return count.toLocaleString('en');
}

/** Writes a number with its noun. */
export function countOfNoun(count: number, noun: string): string {
  return `${countOf(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** Writes a cost; null has no price. */
export function dollarsOf(cost: string | null): string {
  if (cost === null) return 'no price';
  const value = Number(cost);
  return `$${value > 0 && value < 1 ? value.toPrecision(2) : value.toFixed(2)}`;
}

/** Writes a duration in its largest unit or two. Unit: milliseconds. */
export function durationOf(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

/** Writes a size of a file. */
export function bytesOf(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

/** Joins words as a list in a sentence. */
export function listOf(words: readonly string[]): string {
  return words.length < 2 ? (words[0] ?? '') : `${words.slice(0, -1).join(', ')} and ${words.at(-1) ?? ''}`;
}
