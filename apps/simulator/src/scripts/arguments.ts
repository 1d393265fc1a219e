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

/** A JSON object among the arguments; undefined when absent or not an object. */
export function objectIn(args: ScriptArguments, name: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(args[name] ?? 'null');
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as JsonObject)
      : undefined;
  } catch {
    return undefined;
  }
}

/** A JSON list among the arguments; empty when absent or not a list. */
export function listIn(args: ScriptArguments, name: string): unknown[] {
  try {
    const value: unknown = JSON.parse(args[name] ?? '[]');
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}
