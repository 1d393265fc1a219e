import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A seed that failed once, and its violation. */
export interface Regression {
  readonly seed: number;
  /** Number of effects with faults. Default: as the seed draws. */
  readonly faultyEvents?: number;
  readonly what: string;
}

const FILE = join(import.meta.dirname, 'regressions.json');

/** Reads the seeds that ever failed, oldest first. The tests run them again. */
export function readRegressions(): readonly Regression[] {
  return JSON.parse(readFileSync(FILE, 'utf8')) as readonly Regression[];
}

/** Adds a seed, unless the file has it. */
export function keepRegression(regression: Regression): void {
  const kept = readRegressions();
  if (kept.some(({ seed }) => seed === regression.seed)) return;
  writeFileSync(FILE, `${JSON.stringify([...kept, regression], null, 2)}\n`);
}
