import { z } from 'zod';

/** Nanoseconds between two times. After 104 days the number is no safe integer and loses digits. */
export const durationNs = z.number().meta({ type: 'integer', format: 'int64' });
