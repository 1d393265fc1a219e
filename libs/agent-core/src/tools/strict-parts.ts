import { isJsonObject, type JsonObject } from '../base/json.ts';
import { parseModelHandle, type Definition, type StrictParts } from '../model/definition.ts';
import { modelTraits } from '../model/traits.ts';
import { withTypedFinish } from './finish.ts';
import { strictSize } from './strict-subset.ts';

/**
 * Version of {@link strictPartsOf} and of the form in which its choice is sent. Part of a definition's id, so that a
 * release with other rules stores new definitions and never changes the requests of a run. Raise it with any such change.
 */
export const STRICT_RULES = 1;

/** Limits of the provider for all enforced schemas of a request together. */
export const STRICT_TOOLS_MAX = 20;
export const STRICT_OPTIONAL_MAX = 24;
export const STRICT_UNIONS_MAX = 16;

/**
 * Chooses the parts of a definition that the provider enforces: those with a proof, within its limits. Null for none.
 * The schema of the result goes first, as output format or as the argument of `finish`; then the tools in their order.
 * A tool beyond a limit is left out, and a later tool may still fit.
 */
export function strictPartsOf(
  definition: Pick<Definition, 'tools' | 'model' | 'model_settings' | 'result_format'>,
): StrictParts | null {
  const { model, model_settings, result_format = null } = definition;
  const name = parseModelHandle(model)?.name ?? model;
  if (!modelTraits(name).takes_strict || hasOwnFormat(model_settings.extra)) return null;
  const schema = result_format?.schema ?? null;
  const tools = schema === null ? definition.tools : withTypedFinish(definition.tools, schema, 'hoisted');
  const finish = tools.find((tool) => tool.kind === 'finish');

  const left = { tools: STRICT_TOOLS_MAX, optional: STRICT_OPTIONAL_MAX, unions: STRICT_UNIONS_MAX };
  const takes = (part: JsonObject, toolCount: number): boolean => {
    const size = left.tools < toolCount ? null : strictSize(part);
    if (size === null || size.optional > left.optional || size.unions > left.unions) return false;
    left.tools -= toolCount;
    left.optional -= size.optional;
    left.unions -= size.unions;
    return true;
  };
  const isFormatStrict = schema !== null && finish === undefined && takes(schema, 0);
  const isFinishStrict = finish !== undefined && takes(finish.input_schema, 1);
  const strict = tools.filter((tool) => (tool === finish ? isFinishStrict : takes(tool.input_schema, 1)));
  if (strict.length === 0 && !isFormatStrict) return null;
  return { tools: strict.map((tool) => tool.name), result_format: isFormatStrict };
}

/** Returns whether the agent's settings name an output format, whose parameters count and which is sent as it is. */
function hasOwnFormat({ output_config: config = {}, output_format: format }: JsonObject): boolean {
  return format !== undefined || !isJsonObject(config) || Object.hasOwn(config, 'format');
}
