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
/** Of system errors that have come without more than their code. */
const SYSTEM_CODE = /^E(?!RR_)[A-Z]+(?:_[A-Z]+)?$/;
/** Of connections that cannot be secured: they say nothing of rows, nor does anything that a system call has met. */
const TLS_CODE = /^(?:ERR_SSL_|ERR_TLS_|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/;
const CONNECTION_TEXT =
  /connection terminated|connection error|SSL connection|timeout exceeded when trying to connect|query read timeout|pool after calling end|aborted/i;

/** What is looked at of an error, whatever was thrown. */
interface Facts {
  readonly code?: unknown;
  readonly errno?: unknown;
  readonly syscall?: unknown;
  readonly message?: unknown;
  readonly name?: unknown;
}

function factsOf(error: unknown): Facts {
  return typeof error === 'object' && error !== null ? error : {};
}

/** Sorts an error that a transaction threw. Errors of our own code count as poison: they come from the rows. */
export function judgeError(error: unknown): ErrorJudgement {
  if (isError(error, 'fenced') || isError(error, 'tool_host_unavailable')) return 'later';
  // The codes of our own are words, and one of five letters is no SQLSTATE.
  if (error instanceof NightshiftError) return 'poison';
  const { code, errno, syscall, message, name } = factsOf(error);
  if (name === 'AbortError') return 'later';
  // A host with several addresses: all of them were tried.
  if (error instanceof AggregateError && error.errors.some((each) => judgeError(each) === 'later'))
    return 'later';
  // A host that cannot be looked up or reached, no file handle left, a socket that is gone: met by the system, not by a row.
  if (typeof errno === 'number' || typeof syscall === 'string') return 'later';
  if (typeof code === 'string') {
    if (AGAIN.has(code)) return 'again';
    if (SYSTEM_CODE.test(code) || TLS_CODE.test(code)) return 'later';
    // A missing column, a right that is lacking, a server in trouble: the same whatever the rows.
    if (/^[0-9A-Z]{5}$/.test(code)) return POISON_CLASSES.has(code.slice(0, 2)) ? 'poison' : 'later';
  }
  return typeof message === 'string' && CONNECTION_TEXT.test(message) ? 'later' : 'poison';
}

/** Whether rows broke a constraint: by what they are, or by what another transaction has committed meanwhile. */
export function isBrokenConstraint(error: unknown): boolean {
  const { code } = factsOf(error);
  return typeof code === 'string' && /^23[0-9A-Z]{3}$/.test(code);
}

/** Whether a statement took longer than the database allows, which a smaller set of rows may well not. */
export function isStatementTimeout(error: unknown): boolean {
  return factsOf(error).code === '57014';
}
