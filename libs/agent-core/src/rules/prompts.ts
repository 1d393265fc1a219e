import type { ToolRule } from './rule.ts';

/** Returns a rule's line for the model; null for rules that are told only on violation. */
export function rulePrompt(rule: ToolRule): string | null {
  const { tool_name } = rule;
  switch (rule.type) {
    case 'constrain_child_tools':
      return `After using ${tool_name}, the next tool must be one of: ${listOf(rule.children)}.`;
    case 'parent_last_tool':
      return `${listOf(rule.children)} can be used only directly after ${tool_name}.`;
    case 'conditional':
      return `The output of ${tool_name} determines which tool must be used next.`;
    case 'exit_loop':
      return `Calling ${tool_name} ends your response.`;
    case 'continue_loop':
      return `After calling ${tool_name}, your response must go on.`;
    case 'required_before_exit':
      return `${tool_name} must be called before the conversation ends.`;
    case 'max_count_per_step':
      return `${tool_name}: at most ${rule.max_count_limit} ${rule.max_count_limit === 1 ? 'use' : 'uses'} per response.`;
    case 'run_first':
    case 'requires_approval':
      return null;
  }
}

function listOf(names: readonly string[]): string {
  return names.length === 0 ? 'no tool' : names.join(', ');
}

/** Order of the rules in the prompt. Types not listed are told on violation. */
const PROMPT_ORDER: readonly (readonly ToolRule['type'][])[] = [
  ['continue_loop'],
  ['constrain_child_tools', 'conditional', 'max_count_per_step'],
  ['parent_last_tool'],
  ['exit_loop'],
];

const DESCRIPTION =
  'These rules say which tools may be used and when. They are binding while you plan and while you call tools. One ' +
  'response may hold several tool calls.';

/**
 * Returns the `tool_usage_rules` section of the system prompt; `''` where the rules tell nothing.
 * It depends on the rules alone, so it belongs to the static part of the prompt.
 */
export function toolUsageRules(rules: readonly ToolRule[]): string {
  const texts = PROMPT_ORDER.flatMap((types) => rules.filter((rule) => types.includes(rule.type)))
    .map(rulePrompt)
    .filter((prompt) => prompt !== null)
    .map((prompt) => `<tool_rule>\n${prompt}\n</tool_rule>`);
  if (texts.length === 0) return '';
  return `<tool_usage_rules>\n${DESCRIPTION}\n\n${texts.join('\n')}\n</tool_usage_rules>`;
}
