import { problemSchema } from '../errors/problem.ts';

/** Error answers of every route. */
export const problems = { '4xx': problemSchema, '5xx': problemSchema } as const;
