import type { CompactionPolicy } from '../model/compaction-policy.ts';
import { isThought, type ContentBlock } from '../model/content.ts';
import { planCompaction, type CompactionPlan } from './compaction.ts';
import {
  estimateContentTokens,
  estimateTokens,
  IMAGE_TOKENS,
  TOOL_PROMPT_TOKENS,
  type TokenCalibration,
} from './tokens.ts';
import { answerTokensMin, fitsWindow, WINDOW_TRIGGER, type WindowVerdict } from './window.ts';

/** What a definition asks of its requests. */
export interface ContextLimits {
  readonly window_tokens: number;
  readonly compaction: CompactionPolicy;
}

/** What is known of a request from its text alone. */
export interface RequestSize {
  /** Of its JSON, pictures included. */
  readonly bytes: number;
  readonly images: number;
  readonly has_tools: boolean;
  /** Messages that it may show at most. */
  readonly messages_max: number;
  readonly max_tokens: number;
}

/**
 * True for a request that has to be looked at message by message, by {@link fitRequest}. It is asked for every request,
 * so it parses none, and counts nothing lower than that one does.
 */
export function isTight(size: RequestSize, limits: ContextLimits, calibration: TokenCalibration): boolean {
  const { compaction, window_tokens } = limits;
  const tokens =
    estimateTokens(size.bytes, calibration) +
    size.images * IMAGE_TOKENS +
    (size.has_tools ? TOOL_PROMPT_TOKENS : 0);
  if (tokens > window_tokens * WINDOW_TRIGGER || tokens + size.max_tokens > window_tokens) return true;
  return compaction.mode === 'static_buffer' && size.messages_max > compaction.limit;
}

/** A request, message by message. */
export interface RequestFacts {
  /** What it shows, after the present summary. */
  readonly messages: readonly {
    readonly seq: number;
    readonly role: string;
    readonly content: readonly ContentBlock[];
  }[];
  /** JSON of the rest of the prompt: system, tools, memory, present summary. */
  readonly fixed_bytes: number;
  /** The present summary's part of that; 0 without one. */
  readonly replaced_bytes: number;
  readonly has_tools: boolean;
  readonly max_tokens: number;
  /** What the model may think of `max_tokens`. */
  readonly thinking_tokens: number;
  /** What a summary may take. */
  readonly summary_tokens: number;
  /** The model's thinking blocks are good only after what they were made after: behind another summary none is sent. */
  readonly binds_thinking: boolean;
  /** The provider found this very prompt too long. */
  readonly is_refused: boolean;
}

export type FitVerdict =
  | WindowVerdict
  /** Summarise these messages first. */
  | { readonly kind: 'compact'; readonly plan: CompactionPlan };

/**
 * What becomes of a request: it is sent as it is or with a shorter answer, its conversation is compacted first, or its
 * run ends. No summary is asked for, and paid, after which the request would still not fit.
 */
export function fitRequest(
  facts: RequestFacts,
  limits: ContextLimits,
  calibration: TokenCalibration,
): FitVerdict {
  const messages = facts.messages.map((message) => {
    const tokens = estimateContentTokens(message.content, calibration);
    const without = message.content.filter((block) => !isThought(block));
    const isSame = !facts.binds_thinking || without.length === message.content.length;
    return { ...message, tokens, tokens_kept: isSame ? tokens : estimateContentTokens(without, calibration) };
  });
  const fixed_tokens =
    estimateTokens(facts.fixed_bytes, calibration) + (facts.has_tools ? TOOL_PROMPT_TOKENS : 0);
  const replaced_tokens = estimateTokens(facts.replaced_bytes, calibration);
  const window = { ...facts, window_tokens: limits.window_tokens };
  const plan = planCompaction(
    { ...window, messages, fixed_tokens, replaced_tokens, answer_tokens: answerTokensMin(facts) },
    limits.compaction,
  );
  if (plan !== null && fitsWindow({ ...window, input_tokens: plan.tokens_after }).kind === 'fits') {
    return { kind: 'compact', plan };
  }
  if (facts.is_refused) {
    const message =
      'The provider found the prompt too long, and there is nothing in it to summarise. Shorten the system prompt, the ' +
      'memory or the input.';
    return { kind: 'overflow', message };
  }
  const input_tokens = fixed_tokens + messages.reduce((sum, { tokens }) => sum + tokens, 0);
  return fitsWindow({ ...window, input_tokens });
}
