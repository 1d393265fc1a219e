import { problemSchema } from '../errors/problem.ts';

/** What any route may answer beside its own success. */
export const problems = { '4xx': problemSchema, '5xx': problemSchema } as const;
