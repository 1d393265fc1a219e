import { NightshiftError } from '@nightshift/agent-core';
import { sentence } from '@nightshift/intake';
import type { FastifyError } from 'fastify';
import { INTERNAL, toAnswer, type ErrorAnswer } from './problem.ts';
import { toFieldErrors, type FieldErrors } from './field-errors.ts';

/**
 * Converts a thrown value to an answer. Hides the texts of the database and of libraries. `bodyLimit` is the route's limit in
 * bytes.
 */
export function answerOf(error: unknown, bodyLimit: () => number): ErrorAnswer {
  if (error instanceof NightshiftError) return toAnswer(error);
  if (!(error instanceof Error)) return INTERNAL;
  const { validation, validationContext, code } = error as Partial<FastifyError>;
  if (validation !== undefined) {
    return toAnswer(validationError(toFieldErrors(validation, validationContext)));
  }
  const known = KNOWN[code ?? ''] ?? KNOWN[(code ?? '').slice(0, 2)];
  if (known !== undefined) return toAnswer(known(bodyLimit));
  return LOST_CONNECTION.test(error.message) ? toAnswer(away()) : INTERNAL;
}

function validationError(errors: FieldErrors): NightshiftError {
  const [first] = errors.fields;
  const message =
    first === undefined
      ? 'The request is not valid.'
      : sentence(`${first.path === '' ? 'The body' : first.path}: ${first.message}`);
  return new NightshiftError('validation_failed', message, errors);
}

const busy = (): NightshiftError => new NightshiftError('not_ready', 'The database is busy with this row.');
const away = (): NightshiftError =>
  new NightshiftError('database_unreachable', 'The database does not answer.');

const full = (): NightshiftError =>
  new NightshiftError('database_unreachable', 'The database has no connection left.');
/** The error of a standby or read-only database. */
export const readOnly = (): NightshiftError =>
  new NightshiftError('database_unreachable', 'The database is read-only: it takes no writes.');

const unstorable = (what: string): NightshiftError =>
  new NightshiftError('validation_failed', `The request holds ${what} that the database cannot store.`);

const MIB = 1024 * 1024;

/** Messages of pg without a code, for a connection that was lost or not available; the last at a rollback. */
const LOST_CONNECTION =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error)/;

/** Errors by Fastify's codes, Node's codes, and PostgreSQL's SQLSTATEs or their classes. */
const KNOWN: Readonly<Record<string, (bodyLimit: () => number) => NightshiftError>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: (bodyLimit) =>
    new NightshiftError(
      'payload_too_large',
      `The body is larger than the ${bodyLimit() / MIB} MiB that this route accepts.`,
    ),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new NightshiftError('unsupported_media_type', 'The content type of the body is not application/json.'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new NightshiftError('invalid_argument', 'The length of the body differs from its Content-Length.'),
  FST_ERR_BAD_URL: () => new NightshiftError('invalid_argument', 'The URL is not properly encoded.'),
  FST_ERR_MAX_PARAM_LENGTH: () => new NightshiftError('invalid_argument', 'A part of the URL is too long.'),
  // Unique violation after a check: a concurrent request was faster.
  '23505': () => new NightshiftError('conflict', 'Another request has just taken this name or label.'),
  // A referenced row was deleted meanwhile.
  '23503': () =>
    new NightshiftError('conflict', 'Something that the request refers to has just been deleted.'),
  // The schemas should refuse this by name; this is a fallback, so that it is not an internal error.
  '22021': () => unstorable('a character'),
  '22P05': () => unstorable('a character'),
  '22007': () => unstorable('a time'),
  '22008': () => unstorable('a time'),
  '22009': () => unstorable('a time'),
  // Deadlock, serialisation failure, lock timeout, statement timeout of a write.
  '40P01': busy,
  '40001': busy,
  '55P03': busy,
  '57014': busy,
  '08': away,
  '25006': readOnly,
  '53': away,
  '53300': full,
  '57P01': away,
  '57P02': away,
  '57P03': away,
  ECONNREFUSED: away,
  ECONNRESET: away,
  ENOTFOUND: away,
  ETIMEDOUT: away,
};
