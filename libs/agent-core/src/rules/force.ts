import { isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import { modelTraits } from '../model/traits.ts';

/** Returns whether requests to the model may force a call. Manual extended thinking excludes it. */
export function acceptsForcedChoice(modelName: string, extra: JsonObject): boolean {
  const thinking = extra['thinking'];
  const isManual = isJsonObject(thinking) && thinking['type'] === 'enabled';
  return modelTraits(modelName).takes_forced_choice && !isManual;
}

export interface ForceFacts {
  /** The callable tools, in stable order. */
  readonly allowed: readonly string[];
  /** The provider's name of the model. */
  readonly model_name: string;
  readonly parallel_tool_calls: boolean;
  /** `model_settings.extra` of the definition. */
  readonly extra: JsonObject;
}

/**
 * Returns the `tool_choice` of a request that must call a tool; null without callable tools or model support.
 * The answer is checked either way. The tools stay the same for all steps to keep the provider's cache; with `any`, the
 * model chooses and the check judges.
 */
export function forcedToolChoice(facts: ForceFacts): JsonObject | null {
  const { allowed, model_name, parallel_tool_calls, extra } = facts;
  const [only] = allowed;
  if (only === undefined || !acceptsForcedChoice(model_name, extra)) return null;
  const choice: Record<string, Json> = allowed.length === 1 ? { type: 'tool', name: only } : { type: 'any' };
  if (!parallel_tool_calls) choice['disable_parallel_tool_use'] = true;
  return choice;
}
