/**
 * One line for the log of a program that could not start, of an error that nobody has a sentence for: a JSON object of
 * level 60 with the stack. Only what an error says of itself: what clients hang on theirs may hold a password.
 */
export function startFailure(error: unknown): string {
  const told: NodeJS.ErrnoException = error instanceof Error ? error : new Error(String(error));
  const { name, message, stack, code } = told;
  const err = { name, message, stack, code };
  return JSON.stringify({ level: 60, time: Date.now(), err, msg: `cannot start: ${message}` });
}
