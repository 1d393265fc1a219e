/** Variables visible to modules. All others may hold secrets. */
const VARIABLES_KEPT = ['PATH', 'TZ', 'LANG'] as const;

/** Returns the environment of the child. */
export function keptEnvironment(): Record<string, string> {
  return Object.fromEntries(
    VARIABLES_KEPT.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}
