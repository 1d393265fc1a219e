import { z } from 'zod';

/** What Letta's clients may send and nothing here acts on. */
export const ignored = z.unknown().optional().describe('Of Letta; means nothing here.');

/** What is sent back as it was answered. */
export const answered = z.unknown().optional().describe('Answered, and not taken over.');
