import type { FieldError } from '../base/errors.ts';
import { NO_HISTORY, type RuleHistory } from './history.ts';
import { childForResult } from './output.ts';
import { rulesOf, type ToolRule } from './rule.ts';

/**
 * Returns the callable tools.
 * Before the first call of a run with `run_first` rules: their tools, in rule order. Otherwise the `available` tools
 * that every restricting rule allows, in order. Without rules all available tools.
 * Empty means that nothing may be called, never "no restriction"; the caller ends the run.
 */
export function allowedTools(
  rules: readonly ToolRule[],
  history: RuleHistory,
  available: readonly string[],
): readonly string[] {
  const first = rulesOf(rules, 'run_first');
  if (history.calls.length === 0 && first.length > 0) {
    const attached = new Set(available);
    return [...new Set(first.map((rule) => rule.tool_name))].filter((name) => attached.has(name));
  }
  const all = new Set(available);
  const sets = rules.map((rule) => allowedBy(rule, history, all));
  return [...all].filter((name) => sets.every((set) => set === null || set.has(name)));
}

/** Returns the tools that a rule allows; null where it restricts nothing. */
function allowedBy(
  rule: ToolRule,
  history: RuleHistory,
  available: ReadonlySet<string>,
): ReadonlySet<string> | null {
  const isLast = rule.tool_name === history.calls.at(-1);
  switch (rule.type) {
    case 'constrain_child_tools':
      return isLast ? new Set(rule.children) : null;
    case 'parent_last_tool':
      return isLast ? new Set(rule.children) : without(available, rule.children);
    case 'conditional': {
      if (!isLast) return null;
      const child = childForResult(rule.child_output_mapping, history.last_result);
      if (child !== null) return new Set([child]);
      if (rule.require_output_mapping) return new Set();
      return rule.default_child === null ? null : new Set([rule.default_child]);
    }
    case 'max_count_per_step':
      return isUsedUp(rule, history.calls) ? without(available, [rule.tool_name]) : null;
    default:
      return null;
  }
}

function without(available: ReadonlySet<string>, names: readonly string[]): ReadonlySet<string> {
  const left = new Set(available);
  for (const name of names) left.delete(name);
  return left;
}

function isUsedUp(
  rule: { readonly tool_name: string; readonly max_count_limit: number },
  calls: readonly string[],
): boolean {
  return calls.filter((name) => name === rule.tool_name).length >= rule.max_count_limit;
}

/** Returns whether the rules leave this tool no further call. `calls` are the run's. */
export function isExhausted(rules: readonly ToolRule[], calls: readonly string[], toolName: string): boolean {
  return rulesOf(rules, 'max_count_per_step').some(
    (rule) => rule.tool_name === toolName && isUsedUp(rule, calls),
  );
}

/** Returns whether the next answer must call a tool: by `run_first`, or by children of the last tool. */
export function mustForce(rules: readonly ToolRule[], history: RuleHistory): boolean {
  const last = history.calls.at(-1);
  if (last === undefined) return rulesOf(rules, 'run_first').length > 0;
  return rules.some(
    (rule) =>
      rule.tool_name === last &&
      (rule.type === 'constrain_child_tools' ||
        rule.type === 'conditional' ||
        rule.type === 'parent_last_tool'),
  );
}

function hasRule(rules: readonly ToolRule[], type: ToolRule['type'], toolName: string): boolean {
  return rules.some((rule) => rule.type === type && rule.tool_name === toolName);
}

/** Returns whether calling the tool ends the run. */
export function isTerminal(rules: readonly ToolRule[], toolName: string): boolean {
  return hasRule(rules, 'exit_loop', toolName);
}

/** Returns whether the rules demand that the run goes on after the tool. A call limit does not. */
export function continues(rules: readonly ToolRule[], toolName: string): boolean {
  return (
    hasRule(rules, 'continue_loop', toolName) ||
    hasRule(rules, 'constrain_child_tools', toolName) ||
    hasRule(rules, 'conditional', toolName)
  );
}

/** Returns whether a call of the tool needs the caller's approval. */
export function requiresApproval(rules: readonly ToolRule[], toolName: string): boolean {
  return hasRule(rules, 'requires_approval', toolName);
}

/** Returns the attached required tools that have not been called, in rule order. */
export function uncalledRequired(
  rules: readonly ToolRule[],
  history: RuleHistory,
  available: readonly string[],
): readonly string[] {
  const names = new Set(rulesOf(rules, 'required_before_exit').map((rule) => rule.tool_name));
  return [...names].filter((name) => available.includes(name) && !history.calls.includes(name));
}

/**
 * Checks that the rules leave a tool of `available` callable at the start.
 * Runs when an agent or batch is accepted. Whether a run reaches its required tools is checked by `checkRequiredTools`.
 * `path` is a JSON Pointer that begins with `at`.
 */
export function checkToolRules(
  rules: readonly ToolRule[],
  available: readonly string[],
  at = '/tool_rules',
): readonly FieldError[] {
  if (allowedTools(rules, NO_HISTORY, available).length > 0) return [];
  const first = rules.find((rule) => rule.type === 'run_first');
  if (first !== undefined) {
    const message = `The tool that must run first, '${first.tool_name}', is not attached; attach it or drop the rule.`;
    return [{ path: `${at}/${rules.indexOf(first)}/tool_name`, message }];
  }
  if (available.length === 0) return [];
  return [{ path: at, message: 'No tool may be called first under these rules; add a run_first rule.' }];
}
