/** Variables visible to tools. All others may hold secrets. */
const VARIABLES_KEPT = ['PATH', 'TZ', 'LANG'] as const;

/** Returns the environment of the child and its threads: enough to find programs and print correctly. */
export function keptEnvironment(): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of VARIABLES_KEPT) {
    const value = process.env[name];
    if (value !== undefined) kept[name] = value;
  }
  return kept;
}
