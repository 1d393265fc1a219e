import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A seed that failed once, and what it found. */
export interface Regression {
  readonly seed: number;
  readonly what: string;
}

const FILE = join(import.meta.dirname, 'regressions.json');

/** All seeds that ever failed, oldest first. They are run again by the tests. */
export function readRegressions(): readonly Regression[] {
  return JSON.parse(readFileSync(FILE, 'utf8')) as readonly Regression[];
}

/** Keeps a seed; one that is kept already stays as it is. */
export function keepRegression(regression: Regression): void {
  const kept = readRegressions();
  if (kept.some(({ seed }) => seed === regression.seed)) return;
  writeFileSync(FILE, `${JSON.stringify([...kept, regression], null, 2)}\n`);
}
