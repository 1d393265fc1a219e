import type { FieldError } from '../base/errors.ts';
import { NO_HISTORY } from './history.ts';
import { rulesOf, type RuleOf, type ToolRule } from './rule.ts';
import { allowedBy, allowedTools } from './solver.ts';

/**
 * What is wrong with rules that require a tool which they never allow: its runs could not end. Names each that certainly cannot
 * be called, whatever tools answer: a condition counts as having any of its outcomes, a limit as never reached, and a tool that
 * the rules name as there, since it may be attached yet or come with a request. Of the tools that are not `attached` none is
 * required. `owed` is a tool that runs must call without a rule of its own; null for none. Rules that leave nothing to call at the
 * start are another's to refuse. `path` is a JSON Pointer that begins with `at`.
 */
export function checkRequiredTools(
  rules: readonly ToolRule[],
  attached: readonly string[],
  owed: string | null = null,
  at = '/tool_rules',
): readonly FieldError[] {
  const reached = reachedBy(rules, [...new Set([...attached, ...rules.flatMap(namesIn)])]);
  if (reached.size === 0) return [];
  const isMissed = (name: string): boolean => attached.includes(name) && !reached.has(name);
  const required = rulesOf(rules, 'required_before_exit').filter((rule) => isMissed(rule.tool_name));
  const problems = required.map((rule) => ({
    path: `${at}/${rules.indexOf(rule)}/tool_name`,
    message: `'${rule.tool_name}' must be called before a run may end, but ${whyNever(rule.tool_name, rules, reached)}, or drop the rule.`,
  }));
  if (owed === null || !isMissed(owed) || required.some(({ tool_name }) => tool_name === owed))
    return problems;
  const message = `'${owed}' must be called to hand over the result, but ${whyNever(owed, rules, reached)}.`;
  return [...problems, { path: at, message }];
}

/** Why no run comes to a tool, and what to do about it. */
function whyNever(name: string, rules: readonly ToolRule[], reached: ReadonlySet<string>): string {
  const parent = rulesOf(rules, 'parent_last_tool').find(
    ({ tool_name, children }) => children.includes(name) && !reached.has(tool_name),
  );
  return parent === undefined
    ? 'the other rules never allow it: name it among the children of a tool that can be called'
    : `only directly after '${parent.tool_name}', which the rules never allow: make that one callable`;
}

function namesIn(rule: ToolRule): readonly string[] {
  switch (rule.type) {
    case 'constrain_child_tools':
    case 'parent_last_tool':
      return [rule.tool_name, ...rule.children];
    case 'conditional':
      return [
        rule.tool_name,
        ...Object.values(rule.child_output_mapping),
        ...(rule.default_child === null ? [] : [rule.default_child]),
      ];
    default:
      return [rule.tool_name];
  }
}

/** The tools that some run by the rules might call. */
function reachedBy(rules: readonly ToolRule[], available: readonly string[]): ReadonlySet<string> {
  const reached = new Set(allowedTools(rules, NO_HISTORY, available));
  // What is added on the way is visited too.
  for (const last of reached) for (const name of mayFollow(rules, last, available)) reached.add(name);
  return reached;
}

/** At least the tools that may be called directly after one. */
function mayFollow(
  rules: readonly ToolRule[],
  last: string,
  available: readonly string[],
): readonly string[] {
  const all = new Set(available);
  const history = { calls: [last], last_result: null };
  const sets = rules.map((rule) => {
    if (rule.type === 'max_count_per_step') return null;
    const isCondition = rule.type === 'conditional' && rule.tool_name === last;
    return isCondition ? outcomesOf(rule) : allowedBy(rule, history, all);
  });
  return available.filter((name) => sets.every((set) => set === null || set.has(name)));
}

/** The tools of which one may come after a condition; null for any. */
function outcomesOf(rule: RuleOf<'conditional'>): ReadonlySet<string> | null {
  const { child_output_mapping, default_child, require_output_mapping } = rule;
  if (!require_output_mapping && default_child === null) return null;
  const others = require_output_mapping || default_child === null ? [] : [default_child];
  return new Set([...Object.values(child_output_mapping), ...others]);
}
