import type { Json } from '../base/json.ts';
import type { CompactionPolicy } from '../model/compaction-policy.ts';
import type { ContentBlock } from '../model/content.ts';
import { WINDOW_TRIGGER } from './window.ts';

/** A message that requests show, in the order of the conversation. */
export interface ContextMessage {
  readonly seq: number;
  readonly role: string;
  readonly content: readonly ContentBlock[];
  /** Estimate. */
  readonly tokens: number;
  /** The same, as it is sent behind another summary. */
  readonly tokens_kept: number;
}

export interface CompactionFacts {
  /** What the next request would show, after the present summary. */
  readonly messages: readonly ContextMessage[];
  /** Estimate of the rest of the prompt: system, tools, memory, present summary. */
  readonly fixed_tokens: number;
  /** The present summary's part of that, which the new one replaces. */
  readonly replaced_tokens: number;
  /** What the new summary may take. */
  readonly summary_tokens: number;
  readonly window_tokens: number;
  /** Fewest tokens that must be left for an answer. */
  readonly answer_tokens: number;
  /** The provider refused the prompt as too long, whatever the estimate says. */
  readonly is_refused: boolean;
}

/** Which messages give way to a summary. Those that are not `shown` in between go with them. */
export interface CompactionPlan {
  /** Last message that the summary stands for. Where it is the last of all, the summary alone is what the model answers. */
  readonly to_seq: number;
  /** Estimate of the prompt afterwards. */
  readonly tokens_after: number;
}

/** What may be left of a prompt that was refused as too long: by how much it was is not known. */
const REFUSED_SHARE = 0.5;

/**
 * Plans a compaction, or null when none is due or none would help.
 *
 * A cut never separates a tool use from its result (the provider's own tools included) nor the parts of a paused turn.
 * Turns are kept whole where one begins late enough; otherwise the cut lies between two steps. The first cut at which
 * the rest fits is taken; if none does, the latest one that leaves less than there is. In the middle of a step nothing
 * may be left but the summary: that is done last, and only when the last message answers tools.
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

/** Where the policy would cut, as an index of the first message that stays; null for never. */
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
 * Where a conversation may be cut in two, as indexes of the first message after the cut: no result is separated from
 * what asked for it, no paused turn from its continuation.
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

/** True for a message that somebody sent, rather than one that answers tools. */
function beginsTurn(message: ContextMessage | undefined): boolean {
  return message?.role === 'user' && !answersTools(message);
}

function answersTools(message: ContextMessage | undefined): boolean {
  return message?.content.some(({ type }) => type === 'tool_result') === true;
}

/** A summary of everything can be answered in place of results, but not in place of what somebody asked. */
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
