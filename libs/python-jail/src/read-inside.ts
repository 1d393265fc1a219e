import { readFileSync } from 'node:fs';

/** Returns a program of the folder `inside`. */
export function readInside(name: string): string {
  return readFileSync(new URL(`./inside/${name}.py`, import.meta.url), 'utf8');
}
