import { isError, NightshiftError } from '@nightshift/agent-core';

/**
 * The reaction to an error of a transaction.
 * `again`: a transient failure (deadlock, serialization, lock timeout): repeat at once.
 * `later`: the database, the connection or the lease is lost: stop, and let the row be claimed again.
 * `poison`: the same rows will fail again: split the set until the faulty row is alone.
 */
export type ErrorJudgement = 'again' | 'later' | 'poison';

/** Classes of SQLSTATE about a statement's data: bad values, broken constraints, limits. */
const POISON_CLASSES = new Set(['22', '23', '54']);
const AGAIN = new Set(['40001', '40P01', '55P03']);
/** System errors with only a code. */
const SYSTEM_CODE = /^E(?!RR_)[A-Z]+(?:_[A-Z]+)?$/;
/** TLS errors of a connection, which say nothing about rows, like all errors of system calls. */
const TLS_CODE = /^(?:ERR_SSL_|ERR_TLS_|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/;
const CONNECTION_TEXT =
  /connection terminated|connection error|SSL connection|timeout exceeded when trying to connect|query read timeout|pool after calling end|aborted/i;

/** The examined properties of an error. */
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

/** Classifies an error of a transaction. Errors of our own code are `poison`, since the rows cause them. */
export function judgeError(error: unknown): ErrorJudgement {
  if (isError(error, 'fenced')) return 'later';
  // Our own codes are words, and a word of five letters is no SQLSTATE.
  if (error instanceof NightshiftError) return 'poison';
  const { code, errno, syscall, message, name } = factsOf(error);
  if (name === 'AbortError') return 'later';
  // A host with several addresses, all of which failed.
  if (error instanceof AggregateError && error.errors.some((each) => judgeError(each) === 'later'))
    return 'later';
  // An unreachable host, no free file handle, a lost socket: an error of the system, not of a row.
  if (typeof errno === 'number' || typeof syscall === 'string') return 'later';
  if (typeof code === 'string') {
    if (AGAIN.has(code)) return 'again';
    if (SYSTEM_CODE.test(code) || TLS_CODE.test(code)) return 'later';
    // A missing column or right, or a server in trouble: independent of the rows.
    if (/^[0-9A-Z]{5}$/.test(code)) return POISON_CLASSES.has(code.slice(0, 2)) ? 'poison' : 'later';
  }
  return typeof message === 'string' && CONNECTION_TEXT.test(message) ? 'later' : 'poison';
}

/** True when rows broke a constraint, by their values or because of another committed transaction. */
export function isBrokenConstraint(error: unknown): boolean {
  const { code } = factsOf(error);
  return typeof code === 'string' && /^23[0-9A-Z]{3}$/.test(code);
}

/** True when a statement timed out; a smaller set of rows may succeed. */
export function isStatementTimeout(error: unknown): boolean {
  return factsOf(error).code === '57014';
}
