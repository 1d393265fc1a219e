import { z } from 'zod';
import { PROBLEM_TYPE, problemSchema } from '../errors/problem.ts';

/** The answer of an error. */
export const problem = {
  description: 'An error as in RFC 9457',
  content: { [PROBLEM_TYPE]: { schema: problemSchema } },
} as const;

/** The answer to an `If-None-Match` with the present version. */
export const notModified = {
  304: z.undefined().describe('The version of `If-None-Match` is the present one'),
} as const;

/** An answer of the JSON value null, as Letta sends to its 1.x clients. */
export const nullAnswer = {
  description: 'Done',
  content: { 'application/json': { schema: z.null().meta({ examples: [null] }) } },
} as const;

/** Error answers of every route. */
export const problems = { '4xx': problem, '5xx': problem } as const;
