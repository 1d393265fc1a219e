import { PROBLEM_TYPE, problemSchema } from '../errors/problem.ts';

const problem = {
  description: 'An error as in RFC 9457',
  content: { [PROBLEM_TYPE]: { schema: problemSchema } },
} as const;

/** Error answers of every route. */
export const problems = { '4xx': problem, '5xx': problem } as const;
