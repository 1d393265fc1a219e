import type { JsonObject } from '../base/json.ts';
import type { ToolDefinition } from '../model/tool.ts';

/** Makes the schema of a text argument. */
export const text = (description: string): JsonObject => ({ type: 'string', description });

/** Makes a built-in tool whose arguments are an object with exactly these properties. */
export function memoryTool(
  name: string,
  description: string,
  properties: JsonObject,
  required: readonly string[] = Object.keys(properties),
  return_char_limit = 50_000,
): ToolDefinition {
  return {
    name,
    kind: 'memory',
    description,
    input_schema: { type: 'object', properties, required: [...required], additionalProperties: false },
    side_effects: 'none',
    return_char_limit,
    timeout_ms: 60_000,
    requires_approval: false,
  };
}
