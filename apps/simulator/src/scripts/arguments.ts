import type { JsonObject } from './script.ts';

/** The arguments of a directive. */
export type ScriptArguments = Readonly<Record<string, string>>;

/** A whole number among the arguments; `fallback` when absent or not a number. */
export function numberIn(args: ScriptArguments, name: string, fallback: number): number {
  const value = Number(args[name] ?? Number.NaN);
  return Number.isFinite(value) && value >= 0 ? Math.floor(value) : fallback;
}

/** Whether an argument is present and not `false` or `0`. */
export function flagIn(args: ScriptArguments, name: string): boolean {
  const value = args[name];
  return value !== undefined && value !== 'false' && value !== '0';
}

/** The JSON object in the argument `args`; undefined when absent or not an object. */
export function callArgumentsIn({ args }: ScriptArguments): JsonObject | undefined {
  const value = parse(args);
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : undefined;
}

/** The JSON list in the argument `steps`; empty when absent or not a list. */
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
