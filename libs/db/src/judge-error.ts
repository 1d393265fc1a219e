import { isError, NightshiftError } from '@nightshift/agent-core';

/**
 * What an error of a transaction calls for.
 * `again`: the database undid it for a reason that passes (deadlock, serialisation, lock time-out): the same once more.
 * `later`: the database, the connection or the lease is away: stop, and let the row be claimed again.
 * `poison`: the same rows will fail again: make the set smaller until the one that fails is alone.
 */
export type ErrorJudgement = 'again' | 'later' | 'poison';

/** Classes of SQLSTATE that speak of the data of a statement: bad values, broken constraints, limits. */
const POISON_CLASSES = new Set(['22', '23', '54']);
const AGAIN = new Set(['40001', '40P01', '55P03']);
const CONNECTION_CODES = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EHOSTUNREACH',
]);
const CONNECTION_TEXT =
  /connection terminated|connection error|timeout exceeded when trying to connect|query read timeout|pool after calling end|aborted/i;

/** Sorts an error that a transaction threw. Errors of our own code count as poison: they come from the rows. */
export function judgeError(error: unknown): ErrorJudgement {
  if (isError(error, 'fenced') || isError(error, 'tool_host_unavailable')) return 'later';
  // The codes of our own are words, and one of five letters is no SQLSTATE.
  if (error instanceof NightshiftError) return 'poison';
  const { code, message, name } = error as {
    readonly code?: unknown;
    readonly message?: unknown;
    readonly name?: unknown;
  };
  if (name === 'AbortError') return 'later';
  if (typeof code === 'string') {
    if (AGAIN.has(code)) return 'again';
    if (CONNECTION_CODES.has(code)) return 'later';
    // A missing column, a right that is lacking, a server in trouble: the same whatever the rows.
    if (/^[0-9A-Z]{5}$/.test(code)) return POISON_CLASSES.has(code.slice(0, 2)) ? 'poison' : 'later';
  }
  return typeof message === 'string' && CONNECTION_TEXT.test(message) ? 'later' : 'poison';
}

/** Whether rows broke a constraint: by what they are, or by what another transaction has committed meanwhile. */
export function isBrokenConstraint(error: unknown): boolean {
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' && /^23[0-9A-Z]{3}$/.test(code);
}

/** Whether a statement took longer than the database allows, which a smaller set of rows may well not. */
export function isStatementTimeout(error: unknown): boolean {
  return (error as { readonly code?: unknown }).code === '57014';
}
