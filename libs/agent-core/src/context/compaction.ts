import type { Json } from '../base/json.ts';
import type { CompactionPolicy } from '../model/compaction-policy.ts';
import type { ContentBlock } from '../model/content.ts';
import { WINDOW_TRIGGER } from './window.ts';

/** A message shown by requests, in conversation order. */
export interface ContextMessage {
  readonly seq: number;
  readonly role: string;
  readonly content: readonly ContentBlock[];
  /** Estimate. */
  readonly tokens: number;
  /** The same behind another summary. */
  readonly tokens_kept: number;
}

export interface CompactionFacts {
  /** Messages of the next request, after the present summary. */
  readonly messages: readonly ContextMessage[];
  /** Estimate of the rest of the prompt: system, tools, memory, present summary. */
  readonly fixed_tokens: number;
  /** The present summary's share of it, which the new summary replaces. */
  readonly replaced_tokens: number;
  /** Maximum length of the new summary. */
  readonly summary_tokens: number;
  readonly window_tokens: number;
  /** Fewest tokens left for an answer. */
  readonly answer_tokens: number;
  /** The provider refused the prompt as too long, whatever the estimate. */
  readonly is_refused: boolean;
}

/** Messages that a summary replaces, hidden messages between them included. */
export interface CompactionPlan {
  /** Last message replaced. Where it is the last of all, the model answers the summary alone. */
  readonly to_seq: number;
  /** Estimate of the prompt afterwards. */
  readonly tokens_after: number;
}

/** Share kept of a prompt refused as too long, whose excess is unknown. */
const REFUSED_SHARE = 0.5;

/**
 * Plans a compaction; null when none is due or none would help.
 * A cut never separates a tool use from its result (the provider's own tools included) nor the parts of a paused turn.
 * It lies before a whole turn if any begins late enough, else between two steps.
 * The first cut at which the rest fits is taken; otherwise the latest that shrinks the prompt. The summary alone
 * remains as the last resort, and only when the last message answers tools.
 */
export function planCompaction(facts: CompactionFacts, policy: CompactionPolicy): CompactionPlan | null {
  const { messages, window_tokens } = facts;
  const goal = firstCut(messages.length, policy);
  if (goal === null) return null;
  const before = facts.fixed_tokens + sum(messages.map(({ tokens }) => tokens));
  const room = Math.min(
    window_tokens * WINDOW_TRIGGER,
    window_tokens - facts.answer_tokens,
    facts.is_refused ? before * REFUSED_SHARE : Infinity,
  );
  const isFull = before > room;
  const isLong = policy.mode === 'static_buffer' && messages.length > policy.limit;
  if (!isFull && !isLong) return null;

  const cuts = safeCuts(messages);
  const plans = [
    ...cuts.filter((cut) => cut >= goal && beginsTurn(messages[cut])),
    ...cuts.filter((cut) => cut >= goal && !beginsTurn(messages[cut])),
    ...cuts.filter((cut) => cut < goal).toReversed(),
  ].map((cut) => planAt(facts, cut));
  const whole = mayGoWhole(messages) ? [planAt(facts, messages.length)] : [];
  const fitting = [...plans, ...whole].find((plan) => plan.tokens_after <= room);
  if (fitting !== undefined) return fitting;
  const [least] = [...plans, ...whole].toSorted((a, b) => a.tokens_after - b.tokens_after);
  const worthIt = facts.is_refused ? before * WINDOW_TRIGGER : before;
  return least === undefined || least.tokens_after >= worthIt ? null : least;
}

/** Returns the policy's cut as index of the first kept message; null for never. */
function firstCut(count: number, policy: CompactionPolicy): number | null {
  switch (policy.mode) {
    case 'none':
      return null;
    case 'static_buffer':
      return Math.max(1, count - policy.keep);
    case 'sliding_window':
      return Math.max(1, Math.ceil(count * policy.evict_ratio));
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}

/**
 * Returns the safe cuts of a conversation, as indexes of the first message after each.
 * A safe cut separates no result from its call, and no paused turn from its continuation.
 */
export function safeCuts(messages: readonly ContextMessage[]): readonly number[] {
  const latestUse = new Map<Json, number>();
  const pairs: { readonly from: number; readonly to: number }[] = [];
  for (const [index, { content }] of messages.entries()) {
    for (const { type, id, tool_use_id } of content) {
      if (id !== undefined && type.endsWith('tool_use')) latestUse.set(id, index);
      const from = tool_use_id === undefined ? undefined : latestUse.get(tool_use_id);
      if (from !== undefined) pairs.push({ from, to: index });
    }
  }
  return messages.flatMap((message, cut) => {
    if (cut === 0) return [];
    if (message.role === 'assistant' && messages[cut - 1]?.role === 'assistant') return [];
    return pairs.some(({ from, to }) => from < cut && cut <= to) ? [] : [cut];
  });
}

/** Returns whether a message was sent to the agent, rather than answering tools. */
function beginsTurn(message: ContextMessage | undefined): boolean {
  return message?.role === 'user' && !answersTools(message);
}

function answersTools(message: ContextMessage | undefined): boolean {
  return message?.content.some(({ type }) => type === 'tool_result') === true;
}

/** Returns whether a summary may replace all messages: in place of results, never of a question. */
function mayGoWhole(messages: readonly ContextMessage[]): boolean {
  return messages.length > 1 && answersTools(messages.at(-1));
}

function planAt(facts: CompactionFacts, cut: number): CompactionPlan {
  const { messages, fixed_tokens, replaced_tokens, summary_tokens } = facts;
  const kept = messages.slice(cut).map(({ tokens_kept }) => tokens_kept);
  return {
    to_seq: messages[cut - 1]?.seq ?? 0,
    tokens_after: fixed_tokens - replaced_tokens + summary_tokens + sum(kept),
  };
}
