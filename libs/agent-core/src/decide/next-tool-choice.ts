import type { JsonObject } from '../base/json.ts';
import { forcedToolChoice } from '../rules/force.ts';
import { allowedTools, mustForce } from '../rules/solver.ts';
import type { ToolPolicy } from './tool-policy.ts';
import { NO_TRAIL, type Trail } from './trail.ts';

/**
 * Returns the `tool_choice` of a run's next request; null for the definition's own.
 * A call that the tool rules make due is forced where the model accepts that; otherwise only the answer is checked.
 * None is forced once the caller has denied it.
 */
export function nextToolChoice(toolPolicy: ToolPolicy, trail: Trail | null): JsonObject | null {
  const { rules, available } = toolPolicy;
  if (rules.length === 0) return null;
  const { history, denied } = trail ?? NO_TRAIL;
  if (denied === true || !mustForce(rules, history)) return null;
  return forcedToolChoice({ ...toolPolicy, allowed: allowedTools(rules, history, available) });
}
