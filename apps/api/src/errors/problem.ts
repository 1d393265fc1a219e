import type { NightshiftError } from '@nightshift/agent-core';
import { ERROR_CATALOGUE, type ErrorCode, type FieldError } from '@nightshift/agent-core';
import { z } from 'zod';

/** The codes that a client may see. */
const CODES = (Object.keys(ERROR_CATALOGUE) as ErrorCode[]).filter(
  (code) => code === 'internal' || ERROR_CATALOGUE[code].status !== null,
);

/**
 * The body of every error: RFC 9457's members, and `detail` as the string that Letta's clients expect. Its content type is
 * application/json all the same, because those clients read anything else as text.
 */
export const problemSchema = z
  .object({
    type: z.string().describe('Names the kind of error; stable.'),
    title: z.string(),
    status: z.int(),
    detail: z.string().describe('What is wrong with this request, and what to do next.'),
    code: z.enum(CODES).meta({ id: 'ErrorCode' }).describe('The kind of error as one word; stable.'),
    message: z.string().describe('The same as detail.'),
    errors: z
      .array(z.object({ path: z.string(), message: z.string() }).meta({ id: 'FieldError' }))
      .describe('The offending fields.'),
    request_id: z.string(),
  })
  .meta({ id: 'Problem' });
export type Problem = z.output<typeof problemSchema>;

/** An error as it is answered. */
export interface ErrorAnswer {
  readonly code: ErrorCode;
  readonly status: number;
  readonly message: string;
  readonly fields: readonly FieldError[];
  /** Set where the client should come back by itself, after so many seconds. */
  readonly retryAfterSeconds: number | null;
}

/** Answers an error of the catalogue; one that no client should see becomes `internal`. */
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

/** What a client learns of an error that was not foreseen. */
export const INTERNAL: ErrorAnswer = {
  code: 'internal',
  status: 500,
  message: 'An unknown error occurred.',
  fields: [],
  retryAfterSeconds: null,
};

/** The body of an answered error. */
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
