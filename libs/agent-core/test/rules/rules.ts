import type { JsonObject } from '../../src/base/json.ts';
import type { RuleHistory } from '../../src/rules/history.ts';
import { parseToolRules, type ToolRule } from '../../src/rules/rule.ts';

/** Parses rules of a test; a test whose rules do not parse is wrong itself. */
export function makeRules(...input: readonly JsonObject[]): readonly ToolRule[] {
  const { rules, problems } = parseToolRules(input);
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return rules;
}

export const first = (tool_name: string, args?: JsonObject): JsonObject => ({
  type: 'run_first',
  tool_name,
  ...(args === undefined ? {} : { args }),
});
export const child = (tool_name: string, ...children: string[]): JsonObject => ({
  type: 'constrain_child_tools',
  tool_name,
  children,
});
export const parent = (tool_name: string, ...children: string[]): JsonObject => ({
  type: 'parent_last_tool',
  tool_name,
  children,
});
export const conditional = (
  tool_name: string,
  child_output_mapping: Record<string, string>,
  rest: JsonObject = {},
): JsonObject => ({ type: 'conditional', tool_name, child_output_mapping, ...rest });
export const maxCount = (tool_name: string, max_count_limit: number): JsonObject => ({
  type: 'max_count_per_step',
  tool_name,
  max_count_limit,
});
export const terminal = (tool_name: string): JsonObject => ({ type: 'exit_loop', tool_name });
export const goesOn = (tool_name: string): JsonObject => ({ type: 'continue_loop', tool_name });
export const required = (tool_name: string): JsonObject => ({ type: 'required_before_exit', tool_name });
export const approval = (tool_name: string): JsonObject => ({ type: 'requires_approval', tool_name });

/** Makes the history of a run that called these tools, with the last result. */
export function after(calls: readonly string[], last_result: string | null = 'ok'): RuleHistory {
  return { calls, last_result: calls.length === 0 ? null : last_result };
}
