import type { JsonObject } from './script.ts';

/** The arguments of a directive. */
export type ScriptArguments = Readonly<Record<string, string>>;

/** Returns an integer argument; `fallback` when it is absent or invalid. */
export function numberIn(args: ScriptArguments, name: string, fallback: number): number {
  const value = Number(args[name] ?? Number.NaN);
  return Number.isFinite(value) && value >= 0 ? Math.floor(value) : fallback;
}

/** True when an argument is present and neither `false` nor `0`. */
export function flagIn(args: ScriptArguments, name: string): boolean {
  const value = args[name];
  return value !== undefined && value !== 'false' && value !== '0';
}

/** Returns the JSON object in the argument `args`; undefined when it is absent or invalid. */
export function callArgumentsIn({ args }: ScriptArguments): JsonObject | undefined {
  const value = parse(args);
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : undefined;
}

/** Returns the JSON list in the argument `steps`; empty when it is absent or invalid. */
export function stepsIn({ steps }: ScriptArguments): readonly unknown[] {
  const value = parse(steps);
  return Array.isArray(value) ? value : [];
}

function parse(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return undefined;
  }
}
