import type { NightshiftError } from '@nightshift/agent-core';
import { ERROR_CATALOGUE, type ErrorCode, type FieldError } from '@nightshift/agent-core';
import { z } from 'zod';

/** The codes that clients may see. */
const CODES = (Object.keys(ERROR_CATALOGUE) as ErrorCode[]).filter(
  (code) => code === 'internal' || ERROR_CATALOGUE[code].status !== null,
);

/**
 * The body of every error: RFC 9457's members, with `detail` as the string that Letta's clients expect. Its content type is
 * application/json, because Letta's clients read other types as text.
 */
export const problemSchema = z
  .object({
    type: z.string().describe('Kind of the error; stable.'),
    title: z.string(),
    status: z.int(),
    detail: z.string().describe('The problem with this request, and the next step.'),
    code: z.enum(CODES).meta({ id: 'ErrorCode' }).describe('Code of the error; stable.'),
    message: z.string().describe('Same as detail.'),
    errors: z
      .array(z.object({ path: z.string(), message: z.string() }).meta({ id: 'FieldError' }))
      .describe('The wrong fields.'),
    request_id: z.string(),
  })
  .meta({ id: 'Problem' });
export type Problem = z.output<typeof problemSchema>;

/** An error for an answer. */
export interface ErrorAnswer {
  readonly code: ErrorCode;
  readonly status: number;
  readonly message: string;
  readonly fields: readonly FieldError[];
  /** Seconds until the client should retry; null for no retry. */
  readonly retryAfterSeconds: number | null;
}

/** Converts an error of the catalogue to an answer. Internal codes become `internal`. */
export function toAnswer(error: NightshiftError): ErrorAnswer {
  const { status } = ERROR_CATALOGUE[error.code];
  if (status === null) return INTERNAL;
  return {
    code: error.code,
    status,
    message: error.message,
    fields: error.fields,
    retryAfterSeconds: status === 503 ? 1 : null,
  };
}

/** The answer to an unexpected error. */
export const INTERNAL: ErrorAnswer = {
  code: 'internal',
  status: 500,
  message: 'An unknown error occurred.',
  fields: [],
  retryAfterSeconds: null,
};

/** Returns the body of an error answer. */
export function toProblem(answer: ErrorAnswer, requestId: string): Problem {
  const { title, next } = ERROR_CATALOGUE[answer.code];
  const detail = `${answer.message} ${next}`;
  return {
    type: `urn:nightshift:error:${answer.code}`,
    title,
    status: answer.status,
    detail,
    code: answer.code,
    message: detail,
    errors: answer.fields.map(({ path, message }) => ({ path, message })),
    request_id: requestId,
  };
}
