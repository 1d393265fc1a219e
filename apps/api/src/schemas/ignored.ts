import { z } from 'zod';

/** What Letta's clients may send and nothing here acts on. */
export const ignored = z.unknown().optional().describe('Of Letta; means nothing here.');
