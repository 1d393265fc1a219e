import type { NightshiftError } from '@nightshift/agent-core';
import { ERROR_CATALOGUE, ISSUES_MAX, type ErrorCode, type FieldError } from '@nightshift/agent-core';
import { z } from 'zod';
import { UUID } from '../schemas/ids.ts';

/** The codes that clients may see. */
const CODES = (Object.keys(ERROR_CATALOGUE) as ErrorCode[]).filter(
  (code) => code === 'internal' || ERROR_CATALOGUE[code].status !== null,
);

/** The media type of every error. */
export const PROBLEM_TYPE = 'application/problem+json';

/**
 * The body of every error: RFC 9457's members, with `detail` as the string that Letta's clients expect. Its content type is
 * {@link PROBLEM_TYPE}.
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
      .describe(`The wrong fields; at most ${ISSUES_MAX}, see \`errors_total\`.`),
    errors_total: z
      .int()
      .nullable()
      .describe('Number of wrong fields. Null: checking stopped at the limit, and there may be more.'),
    request_id: z.string().meta({ pattern: `^${UUID}$` }),
  })
  .meta({
    id: 'Problem',
    examples: [
      {
        type: 'urn:nightshift:error:not_found',
        title: 'Not found',
        status: 404,
        detail: 'There is no agent agent-0199d2a4-8f3e-7c1b-9a55-3d2f6b7c8e90.',
        code: 'not_found',
        message: 'There is no agent agent-0199d2a4-8f3e-7c1b-9a55-3d2f6b7c8e90.',
        errors: [],
        errors_total: 0,
        request_id: '3f0c8a52-3c0e-4b7d-9a3e-2b1c0d9e8f7a',
      },
    ],
  });
export type Problem = z.output<typeof problemSchema>;

/** An error for an answer. */
export interface ErrorAnswer {
  readonly code: ErrorCode;
  readonly status: number;
  readonly message: string;
  readonly fields: readonly FieldError[];
  readonly fields_total: number | null;
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
    fields_total: error.fields_total,
    retryAfterSeconds: status === 503 ? 1 : null,
  };
}

/** The answer to an unexpected error. */
export const INTERNAL: ErrorAnswer = {
  code: 'internal',
  status: 500,
  message: 'An unknown error occurred.',
  fields: [],
  fields_total: 0,
  retryAfterSeconds: null,
};

/** Returns the body of an error answer. */
export function toProblem(answer: ErrorAnswer, requestId: string): Problem {
  const { title, next } = ERROR_CATALOGUE[answer.code];
  const detail = [answer.message, ...cutOf(answer), next].join(' ');
  return {
    type: `urn:nightshift:error:${answer.code}`,
    title,
    status: answer.status,
    detail,
    code: answer.code,
    message: detail,
    errors: answer.fields.map(({ path, message }) => ({ path, message })),
    errors_total: answer.fields_total,
    request_id: requestId,
  };
}

/** Says that `errors` does not name all wrong fields. */
function cutOf({ fields: { length }, fields_total }: ErrorAnswer): readonly string[] {
  if (fields_total === null) return [`Checking stopped after ${length} errors; there may be more.`];
  return fields_total > length ? [`\`errors\` names ${length} of ${fields_total}.`] : [];
}
