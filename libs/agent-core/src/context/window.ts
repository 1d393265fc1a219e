/** Share of the window at which the conversation is compacted, as in Letta. */
export const WINDOW_TRIGGER = 0.9;
/** Fewest answer tokens, thinking aside, that make a request worth its cost. */
const OUTPUT_TOKENS_MIN = 1_024;

export interface WindowFacts {
  /** Estimate of the whole prompt: system, tools, memory, summary, messages. */
  readonly input_tokens: number;
  /** Requested by the definition. */
  readonly max_tokens: number;
  /** Maximum thinking within `max_tokens`, which must be larger. */
  readonly thinking_tokens: number;
  /** The agent's context window. */
  readonly window_tokens: number;
}

export type WindowVerdict =
  /** Send it with this `max_tokens`, lowered to the room in the window. */
  | { readonly kind: 'fits'; readonly max_tokens: number }
  /** It cannot fit; its run ends alone. */
  | { readonly kind: 'overflow'; readonly message: string };

/** Returns the fewest answer tokens that make a request worth its cost. */
export function answerTokensMin(facts: Pick<WindowFacts, 'max_tokens' | 'thinking_tokens'>): number {
  return Math.min(facts.max_tokens, facts.thinking_tokens + OUTPUT_TOKENS_MIN);
}

/** Decides whether a request fits the window: unchanged, with a shorter answer, or not at all. */
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
