import type { JsonObject } from '../base/json.ts';
import { parseModelHandle, type Definition } from '../model/definition.ts';
import type { ToolDefinition } from '../model/tool.ts';
import { parseToolRules, type ToolRule } from '../rules/rule.ts';

/** What a definition lets the model of a run do, read once for all its runs. */
export interface Conduct {
  readonly tools: readonly ToolDefinition[];
  /** Names of the tools, in their order. */
  readonly available: readonly string[];
  readonly rules: readonly ToolRule[];
  /** The provider's name of the model. */
  readonly model_name: string;
  readonly parallel_tool_calls: boolean;
  /** `model_settings.extra` of the definition. */
  readonly extra: JsonObject;
}

/** The conduct of a run that has no tools and no rules. */
export const NO_CONDUCT: Conduct = {
  tools: [],
  available: [],
  rules: [],
  model_name: '',
  parallel_tool_calls: true,
  extra: {},
};

/**
 * Reads the conduct of a definition. Throws for rules that do not parse: they were checked when they were accepted, and
 * leaving one out would allow too much.
 */
export function conductOf(
  definition: Pick<Definition, 'tools' | 'tool_rules' | 'model' | 'model_settings'>,
): Conduct {
  const { tools, tool_rules, model, model_settings } = definition;
  const { rules, problems } = parseToolRules(tool_rules);
  const [problem] = problems;
  if (problem !== undefined) throw new Error(`Tool rule ${problem.path}: ${problem.message}`);
  return {
    tools,
    available: tools.map((tool) => tool.name),
    rules,
    model_name: parseModelHandle(model)?.name ?? model,
    parallel_tool_calls: model_settings.parallel_tool_calls,
    extra: model_settings.extra,
  };
}
