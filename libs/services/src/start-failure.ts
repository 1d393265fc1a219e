/**
 * Formats an unexpected error at the start of a program as one JSON log line of level 60, with its stack.
 * Other properties of the error are left out, since those of clients may hold a password.
 */
export function startFailure(error: unknown): string {
  const failure: NodeJS.ErrnoException = error instanceof Error ? error : new Error(String(error));
  const { name, message, stack, code } = failure;
  const err = { name, message, stack, code };
  return JSON.stringify({ level: 60, time: Date.now(), err, msg: `cannot start: ${message}` });
}
