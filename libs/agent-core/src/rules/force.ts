import { isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import { modelTraits } from '../model/traits.ts';

/** True when requests to the model may force a call. Manual extended thinking excludes it. */
export function acceptsForcedChoice(modelName: string, extra: JsonObject): boolean {
  const thinking = extra['thinking'];
  const isManual = isJsonObject(thinking) && thinking['type'] === 'enabled';
  return modelTraits(modelName).takes_forced_choice && !isManual;
}

export interface ForceFacts {
  /** The tools that may be called next, in stable order. */
  readonly allowed: readonly string[];
  /** The provider's name of the model. */
  readonly model_name: string;
  readonly parallel_tool_calls: boolean;
  /** `model_settings.extra` of the definition. */
  readonly extra: JsonObject;
}

/**
 * The `tool_choice` of a request that must call a tool; null where none may be called, or the model does not take it:
 * the answer is checked either way and asked for again. The array of tools stays the same for all steps, so that the
 * provider's cache keeps its prefix; `any` therefore leaves the choice among allowed ones to the model and the check.
 */
export function forcedToolChoice(facts: ForceFacts): JsonObject | null {
  const { allowed, model_name, parallel_tool_calls, extra } = facts;
  const [only] = allowed;
  if (only === undefined || !acceptsForcedChoice(model_name, extra)) return null;
  const choice: Record<string, Json> = allowed.length === 1 ? { type: 'tool', name: only } : { type: 'any' };
  if (!parallel_tool_calls) choice['disable_parallel_tool_use'] = true;
  return choice;
}
