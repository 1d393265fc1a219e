import type { RuleHistory } from './history.ts';
import { rulePrompt } from './prompts.ts';
import type { ToolRule } from './rule.ts';
import { allowedTools, isExhausted } from './solver.ts';

const NONE: ReadonlySet<number> = new Set();
const HINT_HEADING = '\n** Hint: Possible rules that were violated:\n';

/** Makes the error for a call that the rules forbid: the callable tools and the violated rules. */
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
 * Judges the calls of an answer by the rules, in order: null for an allowed call, else its error text.
 * All are judged by the rules at the time of the request, as the model saw no results between them. A tool's limit also
 * counts earlier calls of the same answer, except at the positions `flawed`, which are never carried out.
 * Tools outside `available` are skipped; they are rejected elsewhere.
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
