import { readFileSync } from 'node:fs';

/**
 * The prompt of memory rewrites. A changed prompt gets a new file and number, so that a batch's prompt can be told from its
 * definition.
 */
export const REWRITE_PROMPT = readFileSync(new URL('./prompt-1.md', import.meta.url), 'utf8').trim();
