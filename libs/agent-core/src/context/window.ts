/** Part of the window that prompts may fill; beyond it the conversation is compacted. As in Letta. */
export const WINDOW_TRIGGER = 0.9;
/** Fewest tokens left for an answer, thoughts aside, that make a request worth its money. */
const OUTPUT_TOKENS_MIN = 1_024;

export interface WindowFacts {
  /** Estimate of the whole prompt: system, tools, memory, summary, messages. */
  readonly input_tokens: number;
  /** What the definition asks for. */
  readonly max_tokens: number;
  /** What the model may think of `max_tokens`; the provider wants that to be less. */
  readonly thinking_tokens: number;
  /** The agent's context window. */
  readonly window_tokens: number;
}

export type WindowVerdict =
  /** Send it, with so many tokens for the answer: fewer than asked for where the window leaves no more. */
  | { readonly kind: 'fits'; readonly max_tokens: number }
  /** It cannot be made to fit; its run ends alone. */
  | { readonly kind: 'overflow'; readonly message: string };

/** Fewest tokens of an answer that make a request worth its money. */
export function answerTokensMin(facts: Pick<WindowFacts, 'max_tokens' | 'thinking_tokens'>): number {
  return Math.min(facts.max_tokens, facts.thinking_tokens + OUTPUT_TOKENS_MIN);
}

/** Whether a request fits the window: as it is, with a shorter answer, or not at all. */
export function fitsWindow(facts: WindowFacts): WindowVerdict {
  const { input_tokens, max_tokens, window_tokens } = facts;
  const left = window_tokens - input_tokens;
  if (left >= answerTokensMin(facts)) {
    return { kind: 'fits', max_tokens: Math.min(max_tokens, left) };
  }
  const message =
    `The prompt is about ${input_tokens} tokens long, the context window holds ${window_tokens}. Shorten the system ` +
    'prompt, the memory or the input, or raise context_window_limit.';
  return { kind: 'overflow', message };
}
