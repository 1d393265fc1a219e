import type { FieldError } from '../base/errors.ts';
import { rulesOf, type RuleOf, type ToolRule } from './rule.ts';

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
  const required = rulesOf(rules, 'required_before_exit').filter(({ tool_name }) =>
    attached.includes(tool_name),
  );
  const owes = owed !== null && attached.includes(owed);
  if (required.length === 0 && !owes) return [];
  const parents = parentsOf(rules);
  const reached = reachedBy(rules, parents, new Set([...attached, ...rules.flatMap(namesIn)]));
  if (reached.size === 0) return [];
  const missed = required.filter(({ tool_name }) => !reached.has(tool_name));
  const problems = missed.map((rule) => ({
    path: `${at}/${rules.indexOf(rule)}/tool_name`,
    message: `'${rule.tool_name}' must be called before a run may end, but ${whyNever(rule.tool_name, parents, reached)}, or drop the rule.`,
  }));
  if (!owes || reached.has(owed) || missed.some(({ tool_name }) => tool_name === owed)) return problems;
  const message = `'${owed}' must be called to hand over the result, but ${whyNever(owed, parents, reached)}.`;
  return [...problems, { path: at, message }];
}

/** Why no run comes to a tool, and what to do about it. */
function whyNever(name: string, parents: Parents, reached: ReadonlySet<string>): string {
  const parent = parents.get(name)?.find((tool) => !reached.has(tool));
  return parent === undefined
    ? 'the other rules never allow it: name it among the children of a tool that can be called'
    : `only directly after '${parent}', which the rules never allow: make that one callable`;
}

/** By name, in rule order, the parents that it may be called directly after only: one of several is not enough. */
type Parents = ReadonlyMap<string, readonly string[]>;

function parentsOf(rules: readonly ToolRule[]): Parents {
  const parents = new Map<string, string[]>();
  for (const { tool_name, children } of rulesOf(rules, 'parent_last_tool'))
    for (const child of children) {
      const known = parents.get(child);
      if (known === undefined) parents.set(child, [tool_name]);
      else known.push(tool_name);
    }
  return parents;
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

/**
 * The tools that some run by the rules might call. Rules may name a quarter of a million: none is looked at for each of the
 * others, but only by the rules about the tool that it follows, and by those of {@link Parents}.
 */
function reachedBy(
  rules: readonly ToolRule[],
  parents: Parents,
  available: ReadonlySet<string>,
): ReadonlySet<string> {
  const rulesAbout = Map.groupBy(rules, ({ tool_name }) => tool_name);
  const free = [...available].filter((name) => !parents.has(name));
  const mayFollow = (last: string): readonly string[] => {
    const [children, ...others] = (rulesAbout.get(last) ?? []).map(childrenOf).filter((set) => set !== null);
    // All that is free may follow, after each such tool the same: once added, it need not come again.
    if (children === undefined) return free.splice(0);
    return [...children].filter(
      (name) =>
        others.every((set) => set.has(name)) && (parents.get(name) ?? []).every((parent) => parent === last),
    );
  };
  const first = rulesOf(rules, 'run_first').map(({ tool_name }) => tool_name);
  const reached = new Set(first.length > 0 ? first : free);
  // What is added on the way is visited too.
  for (const last of reached) for (const name of mayFollow(last)) reached.add(name);
  return reached;
}

/** The tools of which one must come after a call of the rule's tool, whatever it answers; null for any. */
function childrenOf(rule: ToolRule): ReadonlySet<string> | null {
  switch (rule.type) {
    case 'constrain_child_tools':
    case 'parent_last_tool':
      return new Set(rule.children);
    case 'conditional':
      return outcomesOf(rule);
    default:
      return null;
  }
}

/** The tools of which one may come after a condition; null for any. */
function outcomesOf(rule: RuleOf<'conditional'>): ReadonlySet<string> | null {
  const { child_output_mapping, default_child, require_output_mapping } = rule;
  if (!require_output_mapping && default_child === null) return null;
  const others = require_output_mapping || default_child === null ? [] : [default_child];
  return new Set([...Object.values(child_output_mapping), ...others]);
}
