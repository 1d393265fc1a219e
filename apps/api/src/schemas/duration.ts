import { z } from 'zod';

/** Nanoseconds between two moments. After 104 days they are no safe integer any more, and as exact as a number can be. */
export const durationNs = z.number().meta({ type: 'integer', format: 'int64' });
