/** The conversations of the cost bench: tool loops over a long prompt, whose tokens have four bytes. */

/** One measured workload. */
export interface Cell {
  readonly steps: number;
  /** Tokens of system prompt and memory. */
  readonly prompt_tokens: number;
}

const STEPS = [1, 2, 3, 5, 10];
const PROMPT_TOKENS = [2_000, 20_000, 100_000];

export const CELLS: readonly Cell[] = PROMPT_TOKENS.flatMap((prompt_tokens) =>
  STEPS.map((steps) => ({ steps, prompt_tokens })),
);

/** It caches prefixes of 1,024 tokens. */
export const MODEL = 'claude-sonnet-5';
export const MAX_TOKENS = 1_024;
/** The long block of the memory, which is only read. */
export const FILE_LABEL = 'file';
/** The short block that is written: the answer to a write shows the whole block. */
export const NOTES_LABEL = 'notes';

/** Share of the system prompt, which all agents of a cell have in common; the rest is memory. */
export const SYSTEM_SHARE = 0.2;
const BYTES_PER_TOKEN = 4;
const PROSE = 'Read the file page by page, note what changed, and never promise a date that is not in it. ';

function filled(start: string, tokens: number): string {
  const chars = tokens * BYTES_PER_TOKEN;
  return (start + PROSE.repeat(Math.ceil(chars / PROSE.length))).slice(0, chars);
}

/** The static prompt that the agents of a cell share. */
export function systemOf({ steps, prompt_tokens }: Cell): string {
  return filled(`You keep files of ${steps} pages. `, prompt_tokens * SYSTEM_SHARE);
}

/** The long memory block of one agent. */
export function memoryOf({ prompt_tokens }: Cell, agent: string): string {
  return filled(`The file of ${agent}. `, prompt_tokens * (1 - SYSTEM_SHARE));
}

/**
 * The message of a run: the simulated model calls the tools of a line in each step but the last. Every second step writes
 * memory.
 */
export function inputOf({ steps }: Cell, agent: string): string {
  const lines = [`Bring the file of ${agent} up to date.`];
  for (let page = 1; page < steps; page++) {
    lines.push(JSON.stringify({ tool: 'read_page', args: { page } }));
    if (page % 2 === 0) continue;
    const args = {
      label: NOTES_LABEL,
      content: `Page ${page} was read; nothing has changed since last week.`,
    };
    lines.push(JSON.stringify({ tool: 'core_memory_append', args, parallel: true }));
  }
  return lines.join('\n');
}
