/** The error of a failed attempt, for the user of a run that waits for its next attempt. */
export interface LastError {
  readonly type: string;
  /** In the provider's words. */
  readonly message: string;
}

const TYPE_CHARS_MAX = 100;
const MESSAGE_CHARS_MAX = 500;
const KEY = /\bsk-[\w-]{6,}/g;
const NAME = /^[a-z][a-z0-9_]{0,63}$/;

/** Makes the error of a failed attempt, cut to a bounded length and without keys. */
export function lastError(type: string, message: string): LastError {
  const cut = (text: string, max: number): string =>
    text.length <= max ? text : `${text.slice(0, max - 1).toWellFormed()}…`;
  return { type: cut(type, TYPE_CHARS_MAX), message: cut(message.replace(KEY, 'sk-…'), MESSAGE_CHARS_MAX) };
}

/** Returns the name under which an error is counted: few different ones, whatever the provider says. */
export function errorTypeLabel(type: unknown): string {
  return typeof type === 'string' && NAME.test(type) ? type : 'other';
}
