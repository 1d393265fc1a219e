import type { Json, JsonObject } from '../base/json.ts';
import { parseModelHandle, type Definition } from '../model/definition.ts';
import type { ToolDefinition } from '../model/tool.ts';
import { createResultCheck, withTypedFinish } from '../tools/finish.ts';
import { parseToolRules, type ToolRule } from '../rules/rule.ts';

/** Tool policy of a definition, read once for all its runs. */
export interface ToolPolicy {
  readonly tools: readonly ToolDefinition[];
  /** Names of the tools, in order. */
  readonly available: readonly string[];
  readonly rules: readonly ToolRule[];
  /** The provider's name of the model. */
  readonly model_name: string;
  readonly parallel_tool_calls: boolean;
  /** `model_settings.extra` of the definition. */
  readonly extra: JsonObject;
  /** Required typed result and its delivery; null for a run without a required result. */
  readonly result: ResultDemand | null;
  /** Whether a summary may replace earlier messages. */
  readonly compacts: boolean;
  /** Labels of the blocks that its memory calls may write; null for all. */
  readonly writable_labels: readonly string[] | null;
}

/** A typed result that a run must deliver. */
export interface ResultDemand {
  /** `finish`: by a call of that tool. `answer`: as the JSON of the last answer. */
  readonly by: 'finish' | 'answer';
  /** Instructions in the static part of the prompt; empty where the tools give them. */
  readonly instructions: string;
  /** Returns the error in a result; null for none. */
  readonly check: (result: Json) => string | null;
}

/** The tool policy of a run without tools and rules. */
export const NO_TOOL_POLICY: ToolPolicy = {
  tools: [],
  available: [],
  rules: [],
  model_name: '',
  parallel_tool_calls: true,
  extra: {},
  result: null,
  compacts: false,
  writable_labels: null,
};

/**
 * Reads the tool policy of a definition.
 * Throws: for rules that do not parse. They were checked on acceptance, and skipping a rule would allow too much.
 */
export function toolPolicyOf(
  definition: Pick<
    Definition,
    | 'tools'
    | 'tool_rules'
    | 'model'
    | 'model_settings'
    | 'result_format'
    | 'strict'
    | 'compaction'
    | 'writable_labels'
  >,
): ToolPolicy {
  const { tool_rules, model, model_settings, result_format = null, compaction } = definition;
  const enforced = new Set(definition.strict?.tools);
  const form = definition.tools.some(({ kind, name }) => kind === 'finish' && enforced.has(name))
    ? 'hoisted'
    : 'nested';
  const tools =
    result_format === null ? definition.tools : withTypedFinish(definition.tools, result_format.schema, form);
  const finish = tools.find((tool) => tool.kind === 'finish');
  const { rules, problems } = parseToolRules(tool_rules);
  const [problem] = problems;
  if (problem !== undefined) throw new Error(`Tool rule ${problem.path}: ${problem.message}`);
  return {
    tools,
    available: tools.map((tool) => tool.name),
    rules: [...rules, ...(finish === undefined ? [] : rulesOfFinish(finish.name, result_format !== null))],
    model_name: parseModelHandle(model)?.name ?? model,
    parallel_tool_calls: model_settings.parallel_tool_calls,
    extra: model_settings.extra,
    result:
      result_format === null
        ? null
        : demandOf(result_format.schema, finish !== undefined, definition.strict?.result_format === true),
    compacts: compaction.mode !== 'none',
    writable_labels: definition.writable_labels ?? null,
  };
}

/** Returns the rules of `finish`: it ends the run, and is required where a result is. */
function rulesOfFinish(tool_name: string, isOwed: boolean): readonly ToolRule[] {
  const ends: ToolRule = { type: 'exit_loop', tool_name, prompt_template: null };
  return isOwed ? [ends, { type: 'required_before_exit', tool_name, prompt_template: null }] : [ends];
}

function demandOf(schema: JsonObject, hasFinish: boolean, isEnforced: boolean): ResultDemand {
  const check = createResultCheck(schema);
  if (hasFinish) return { by: 'finish', instructions: '', check };
  // The provider shows a schema that it enforces to the model itself.
  const told = isEnforced
    ? 'When your work is done, answer with nothing but JSON of the output format.'
    : `When your work is done, answer with nothing but JSON of this schema:\n${JSON.stringify(schema)}`;
  return { by: 'answer', instructions: `<result_format>\n${told}\n</result_format>`, check };
}
