import type { Json, JsonObject } from '../base/json.ts';
import { parseModelHandle, type Definition } from '../model/definition.ts';
import type { ToolDefinition } from '../model/tool.ts';
import { createResultCheck, withTypedFinish } from '../tools/finish.ts';
import { parseToolRules, type ToolRule } from '../rules/rule.ts';

/** What a definition lets the model of a run do, read once for all its runs. */
export interface ToolPolicy {
  readonly tools: readonly ToolDefinition[];
  /** Names of the tools, in their order. */
  readonly available: readonly string[];
  readonly rules: readonly ToolRule[];
  /** The provider's name of the model. */
  readonly model_name: string;
  readonly parallel_tool_calls: boolean;
  /** `model_settings.extra` of the definition. */
  readonly extra: JsonObject;
  /** What the result of a run must look like, and how it is handed over; null for a run that owes none. */
  readonly result: ResultDemand | null;
  /** Whether earlier messages may give way to a summary. */
  readonly compacts: boolean;
}

/** A typed result that a run owes. */
export interface ResultDemand {
  /** `finish`: with a call of that tool. `answer`: as the JSON of the last answer. */
  readonly by: 'finish' | 'answer';
  /** What the model is told in the static part of its prompt; empty where its tools say it. */
  readonly instructions: string;
  /** What is wrong with a result; null for nothing. */
  readonly check: (result: Json) => string | null;
}

/** The toolPolicy of a run that has no tools and no rules. */
export const NO_TOOL_POLICY: ToolPolicy = {
  tools: [],
  available: [],
  rules: [],
  model_name: '',
  parallel_tool_calls: true,
  extra: {},
  result: null,
  compacts: false,
};

/**
 * Reads the toolPolicy of a definition. Throws for rules that do not parse: they were checked when they were accepted, and
 * leaving one out would allow too much.
 */
export function toolPolicyOf(
  definition: Pick<
    Definition,
    'tools' | 'tool_rules' | 'model' | 'model_settings' | 'result_format' | 'compaction'
  >,
): ToolPolicy {
  const { tool_rules, model, model_settings, result_format = null, compaction } = definition;
  const tools =
    result_format === null ? definition.tools : withTypedFinish(definition.tools, result_format.schema);
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
    result: result_format === null ? null : demandOf(result_format.schema, finish !== undefined),
    compacts: compaction.mode !== 'none',
  };
}

/** Finishing ends the run, and a run that owes a result must finish. */
function rulesOfFinish(tool_name: string, isOwed: boolean): readonly ToolRule[] {
  const ends: ToolRule = { type: 'exit_loop', tool_name, prompt_template: null };
  return isOwed ? [ends, { type: 'required_before_exit', tool_name, prompt_template: null }] : [ends];
}

function demandOf(schema: JsonObject, hasFinish: boolean): ResultDemand {
  const check = createResultCheck(schema);
  if (hasFinish) return { by: 'finish', instructions: '', check };
  const told = `When your work is done, answer with nothing but JSON of this schema:\n${JSON.stringify(schema)}`;
  return { by: 'answer', instructions: `<result_format>\n${told}\n</result_format>`, check };
}
