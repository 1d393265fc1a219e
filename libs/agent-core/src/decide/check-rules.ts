import type { FieldError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import type { ToolDefinition } from '../model/tool.ts';
import { checkPrefilled } from '../rules/prefill.ts';
import type { ToolRule } from '../rules/rule.ts';
import { checkToolRules } from '../rules/solver.ts';
import { createArgumentValidator, type ArgumentValidator } from '../tools/validate.ts';

let validate: ArgumentValidator | null = null;

/**
 * Checks tool rules against the `tools` of an agent.
 * Errors: no callable tool at the start, or fixed arguments that do not fit. Checked when an agent or batch is
 * accepted, before a step is paid. Rules about absent tools are harmless. `path` is a JSON Pointer that begins with
 * `at`.
 */
export function checkRulesFit(
  rules: readonly ToolRule[],
  tools: readonly ToolDefinition[],
  at = '/tool_rules',
): readonly FieldError[] {
  validate ??= createArgumentValidator();
  const check = validate;
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const misfits = (name: string, args: JsonObject | null, path: string): readonly FieldError[] => {
    const tool = byName.get(name);
    if (tool === undefined || args === null) return [];
    return checkPrefilled(tool, args, check).map((message) => ({ path, message }));
  };
  const names = tools.map((tool) => tool.name);
  return [
    ...checkToolRules(rules, names, at),
    ...rules.flatMap((rule, index) => {
      if (rule.type === 'run_first') return misfits(rule.tool_name, rule.args, `${at}/${index}/args`);
      if (rule.type !== 'constrain_child_tools') return [];
      return (rule.child_arg_nodes ?? []).flatMap(({ name, args }, place) =>
        misfits(name, args, `${at}/${index}/child_arg_nodes/${place}/args`),
      );
    }),
  ];
}
