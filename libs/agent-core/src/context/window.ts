/** Part of the window that prompts may fill; beyond it the conversation is compacted. As in Letta. */
export const WINDOW_TRIGGER = 0.9;
/** Fewest tokens left for an answer that make a request worth its money. */
const OUTPUT_TOKENS_MIN = 1_024;

export interface WindowFacts {
  /** Estimate of the whole prompt: system, tools, memory, summary, messages. */
  readonly input_tokens: number;
  /** What the definition asks for. */
  readonly max_tokens: number;
  /** The agent's context window. */
  readonly window_tokens: number;
  /** Whether a compaction would help: {@link planCompaction} has a plan. */
  readonly can_compact: boolean;
}

export type WindowVerdict =
  /** Send it, with so many tokens for the answer: fewer than asked for where the window leaves no more. */
  | { readonly kind: 'fits'; readonly max_tokens: number }
  | { readonly kind: 'compact' }
  /** It cannot be made to fit; its run ends alone. */
  | { readonly kind: 'overflow'; readonly message: string };

/**
 * Whether a request fits the window: as it is, with a shorter answer, after a compaction, or not at all. Where nothing
 * can be compacted, a prompt beyond the trigger is sent as long as an answer still fits.
 */
export function fitsWindow(facts: WindowFacts): WindowVerdict {
  const { input_tokens, max_tokens, window_tokens, can_compact } = facts;
  const left = window_tokens - input_tokens;
  const leavesAnswer = left >= Math.min(max_tokens, OUTPUT_TOKENS_MIN);
  if (can_compact && (!leavesAnswer || input_tokens > window_tokens * WINDOW_TRIGGER)) {
    return { kind: 'compact' };
  }
  if (leavesAnswer) return { kind: 'fits', max_tokens: Math.min(max_tokens, left) };
  const message =
    `The prompt is about ${input_tokens} tokens long, the context window holds ${window_tokens}. Shorten the system ` +
    'prompt, the memory or the input, or raise context_window_limit.';
  return { kind: 'overflow', message };
}
