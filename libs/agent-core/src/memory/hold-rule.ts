import { planAccept, type HeldFacts, type LabelInUse } from './accept.ts';

/** Agents with such a change stay held when a batch accepts its changes at its end. */
export interface HoldRule {
  /** Part of a block's characters that a change removes, between 0 and 1. */
  readonly shrinks_by: number;
}

/** A held change with the part of its block's characters that it removes; 1 for a block that the agent gives up. */
export interface MeasuredChange extends HeldFacts {
  readonly shrinks_by: number;
}

/**
 * Returns the agents whose changes stay held: those with a change beyond the rule, or with a change that can no longer take
 * effect beside the changes of the agents before. All changes of the other agents take effect together.
 * `held` is in agent order; `labels` are all that these agents use.
 */
export function agentsToHold(
  held: readonly MeasuredChange[],
  labels: readonly LabelInUse[],
  rule: HoldRule,
): ReadonlySet<string> {
  const kept = new Set(
    held.filter((change) => change.shrinks_by > rule.shrinks_by).map((change) => change.agent_id),
  );
  for (;;) {
    const left = held.filter((change) => !kept.has(change.agent_id));
    const verdicts = planAccept(left, labels);
    // Only the first: without it, a later agent's changes may take effect.
    const stale = left.find((_change, index) => verdicts[index] !== null);
    if (stale === undefined) return kept;
    kept.add(stale.agent_id);
  }
}
