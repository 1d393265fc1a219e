/** The variables a tool may see. Everything else in the worker's environment may be a secret. */
const VARIABLES_KEPT = ['PATH', 'TZ', 'LANG'] as const;

/** The environment of the child process, and of its threads: what programs need to be found and to print well. */
export function keptEnvironment(): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of VARIABLES_KEPT) {
    const value = process.env[name];
    if (value !== undefined) kept[name] = value;
  }
  return kept;
}
