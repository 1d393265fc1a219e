import { rulesOf, type ToolRule } from './rule.ts';

/** Facts about a run for its tool rules. */
export interface RuleHistory {
  /** Tools carried out in this run, in order; a single entry for each call. */
  readonly calls: readonly string[];
  /** Text of the last result; null before the first and for a result without text. */
  readonly last_result: string | null;
}

/** The history of a run without calls. */
export const NO_HISTORY: RuleHistory = { calls: [], last_result: null };

/** A call of a run and its outcome. */
export interface PastCall {
  readonly tool_name: string;
  /** Text for the model; null without a result. */
  readonly result: string | null;
  /** False for a call that was refused before it could have an effect. */
  readonly carried_out: boolean;
}

/** Adds further calls to the history, in order. Refused calls are ignored. */
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
 * Returns the part of a history that the rules still need, which stays small.
 * It keeps the last call and each tool's calls up to its limit, but at least one. It keeps the last result if a rule
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
