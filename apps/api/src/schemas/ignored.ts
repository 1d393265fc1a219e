import { z } from 'zod';

/** A field of Letta's clients that is ignored. */
export const ignored = z.unknown().optional().describe('Accepted for compatibility with Letta, and ignored.');

/** A field of an answer that clients may send back. */
export const answered = z.unknown().optional().describe('Returned in answers; ignored in requests.');
