import type { CompactionPolicy } from '../model/compaction-policy.ts';
import { isThought, type ContentBlock } from '../model/content.ts';
import { planCompaction, type CompactionPlan } from './compaction.ts';
import { estimateContentTokens, estimateTokens, IMAGE_TOKENS, type TokenCalibration } from './tokens.ts';
import { TOOL_PROMPT_TOKENS } from '../model/usage.ts';
import { answerTokensMin, fitsWindow, WINDOW_TRIGGER, type WindowVerdict } from './window.ts';

/** Limits of a definition's requests. */
export interface ContextLimits {
  readonly window_tokens: number;
  readonly compaction: CompactionPolicy;
}

/** Size of a request, known from its text alone. */
export interface RequestSize {
  /** Bytes of its JSON, images included. */
  readonly bytes: number;
  readonly images: number;
  readonly has_tools: boolean;
  /** Maximum number of messages shown. */
  readonly messages_max: number;
  readonly max_tokens: number;
}

/**
 * Returns whether {@link fitRequest} must look at a request message by message.
 * It runs for every request, so it parses none, and never counts lower than that function.
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
  /** Messages after the present summary. */
  readonly messages: readonly {
    readonly seq: number;
    readonly role: string;
    readonly content: readonly ContentBlock[];
  }[];
  /** JSON bytes of the rest of the prompt: system, tools, memory, present summary. */
  readonly fixed_bytes: number;
  /** The present summary's share of it; 0 without a summary. */
  readonly replaced_bytes: number;
  readonly has_tools: boolean;
  readonly max_tokens: number;
  /** Maximum thinking within `max_tokens`. */
  readonly thinking_tokens: number;
  /** Maximum length of a summary. */
  readonly summary_tokens: number;
  /** The model binds thinking blocks to their prefix, so none is sent behind another summary. */
  readonly binds_thinking: boolean;
  /** The provider found this prompt too long. */
  readonly is_refused: boolean;
}

export type FitVerdict =
  | WindowVerdict
  /** Summarise these messages first. */
  | { readonly kind: 'compact'; readonly plan: CompactionPlan };

/**
 * Decides whether a request is sent, perhaps with a shorter answer, compacted first, or ends its run.
 * No summary is paid for after which the request would still not fit.
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
