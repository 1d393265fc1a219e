import { rulesOf, type ToolRule } from './rule.ts';

/** What the rules know of a run so far. */
export interface RuleHistory {
  /** Names of the tools that were carried out in this run, in call order; one entry a call, never two. */
  readonly calls: readonly string[];
  /** Text of the last one's result; null before the first, and where a result has no text. */
  readonly last_result: string | null;
}

/** The history of a run that has called nothing. */
export const NO_HISTORY: RuleHistory = { calls: [], last_result: null };

/** A call of a run and what came of it. */
export interface PastCall {
  readonly tool_name: string;
  /** The text that the model was given; null while there is none. */
  readonly result: string | null;
  /** False for a call that was refused before it could have had an effect: it never happened. */
  readonly carried_out: boolean;
}

/** The history after further calls, in call order. Refused ones count for nothing. */
export function withCalls(history: RuleHistory, calls: Iterable<PastCall>): RuleHistory {
  const happened = [...calls].filter((call) => call.carried_out);
  const last = happened.at(-1);
  if (last === undefined) return history;
  return {
    calls: [...history.calls, ...happened.map((call) => call.tool_name)],
    last_result: last.result,
  };
}

/**
 * The part of a history that rules can still ask for, so that what is kept with a run stays small however long it runs:
 * the last call, of each tool as many as its limit counts and at least one, and the last result only where a rule
 * branches on it.
 */
export function keptHistory(rules: readonly ToolRule[], history: RuleHistory): RuleHistory {
  const limits = new Map<string, number>();
  for (const { tool_name, max_count_limit } of rulesOf(rules, 'max_count_per_step')) {
    limits.set(tool_name, Math.max(max_count_limit, limits.get(tool_name) ?? 1));
  }
  const left = new Map<string, number>();
  const calls = history.calls
    .toReversed()
    .filter((name) => {
      const rest = left.get(name) ?? limits.get(name) ?? 1;
      left.set(name, rest - 1);
      return rest > 0;
    })
    .reverse();
  const last = calls.at(-1);
  const branches = rulesOf(rules, 'conditional').some((rule) => rule.tool_name === last);
  return { calls, last_result: branches ? history.last_result : null };
}
