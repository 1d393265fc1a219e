import type { RuleHistory } from './history.ts';
import { rulePrompt } from './prompts.ts';
import type { ToolRule } from './rule.ts';
import { allowedTools, isExhausted } from './solver.ts';

const NONE: ReadonlySet<number> = new Set();
const HINT_HEADING = '\n** Hint: Possible rules that were violated:\n';

/** What a call that the rules forbid is answered with, as an error: which tools may be called, and the rules at play. */
export function violationText(
  rules: readonly ToolRule[],
  toolName: string,
  allowed: readonly string[],
  lastTool: string | null,
): string {
  const names = allowed.length === 0 ? 'none' : allowed.join(', ');
  const hints = rules
    .filter((rule) => rule.tool_name === toolName || rule.tool_name === lastTool)
    .flatMap((rule) => rulePrompt(rule) ?? []);
  const hint = hints.length === 0 ? '' : HINT_HEADING + hints.map((text) => `\t- ${text}`).join('\n');
  return `[ToolConstraintError] Cannot call ${toolName}, valid tools include: ${names}.${hint}`;
}

/**
 * Judges the calls of one answer by the rules, in call order: null for a call that may be carried out, otherwise the
 * text that answers it. All are judged by what was allowed when the request was made, because the model made them
 * without seeing each other's results; a limit on a tool's calls counts the ones before it in the same answer too, but
 * for those at the places `flawed`, which are not carried out whatever the rules say.
 *
 * A tool that is not `available` is left alone: that it does not exist is said elsewhere.
 */
export function checkCalls(
  rules: readonly ToolRule[],
  history: RuleHistory,
  available: readonly string[],
  names: readonly string[],
  flawed: ReadonlySet<number> = NONE,
): readonly (string | null)[] {
  const allowed = allowedTools(rules, history, available);
  const made = [...history.calls];
  return names.map((name, place) => {
    if (!available.includes(name)) return null;
    if (allowed.includes(name) && !isExhausted(rules, made, name)) {
      if (!flawed.has(place)) made.push(name);
      return null;
    }
    const left = allowed.filter((candidate) => !isExhausted(rules, made, candidate));
    return violationText(rules, name, left, history.calls.at(-1) ?? null);
  });
}
