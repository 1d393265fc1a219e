import type { FieldError } from '../base/errors.ts';
import { rulesOf, toolNamesIn, type RuleOf, type ToolRule } from './rule.ts';

/**
 * Finds required tools that the rules never allow, whose runs could not end.
 * Only certain cases count: a condition may have any outcome, no limit is reached, and every named tool may be attached
 * later. Only tools in `attached` are required. `owed` is a tool that runs must call without a rule of its own; null
 * for none. Rules that leave nothing to call at the start are checked elsewhere. `path` is a JSON Pointer that begins
 * with `at`.
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
  const reached = reachedBy(rules, parents, new Set([...attached, ...rules.flatMap(toolNamesIn)]));
  if (reached.size === 0) return [];
  const missed = required.filter(({ tool_name }) => !reached.has(tool_name));
  const problems = missed.map((rule) => ({
    path: `${at}/${rules.indexOf(rule)}/tool_name`,
    message: `'${rule.tool_name}' must be called before a run may end, but ${unreachableReason(rule.tool_name, parents, reached)}, or drop the rule.`,
  }));
  if (!owes || reached.has(owed) || missed.some(({ tool_name }) => tool_name === owed)) return problems;
  const message = `'${owed}' must be called to hand over the result, but ${unreachableReason(owed, parents, reached)}.`;
  return [...problems, { path: at, message }];
}

/** Explains why no run reaches a tool, and how to fix it. */
function unreachableReason(name: string, parents: Parents, reached: ReadonlySet<string>): string {
  const parent = parents.get(name)?.find((tool) => !reached.has(tool));
  return parent === undefined
    ? 'the other rules never allow it: name it among the children of a tool that can be called'
    : `only directly after '${parent}', which the rules never allow: make that tool callable`;
}

/** By name, in rule order: parents that must all allow the tool. */
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

/**
 * Returns the tools that some run may call by the rules.
 * Rules may name 250,000 tools, so each tool is checked only by the rules about its predecessor and by {@link Parents}.
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
    // All free tools may follow, the same after each such tool: added once.
    if (children === undefined) return free.splice(0);
    return [...children].filter(
      (name) =>
        others.every((set) => set.has(name)) && (parents.get(name) ?? []).every((parent) => parent === last),
    );
  };
  const first = rulesOf(rules, 'run_first').map(({ tool_name }) => tool_name);
  const reached = new Set(first.length > 0 ? first : free);
  // The loop also visits tools added on the way.
  for (const last of reached) for (const name of mayFollow(last)) reached.add(name);
  return reached;
}

/** Returns the tools that must follow a call of the rule's tool, whatever its result; null for any. */
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

/** Returns the tools that may follow a condition; null for any. */
function outcomesOf(rule: RuleOf<'conditional'>): ReadonlySet<string> | null {
  const { child_output_mapping, default_child, require_output_mapping } = rule;
  if (!require_output_mapping && default_child === null) return null;
  const others = require_output_mapping || default_child === null ? [] : [default_child];
  return new Set([...Object.values(child_output_mapping), ...others]);
}
