import type { JsonObject } from '../../src/base/json.ts';
import type { ToolDefinition } from '../../src/model/tool.ts';

/** Makes a tool with defaults for the rest. */
export function makeTool(
  name: string,
  input_schema: JsonObject,
  rest: Partial<ToolDefinition> = {},
): ToolDefinition {
  return {
    name,
    kind: 'module',
    description: '',
    input_schema,
    side_effects: 'none',
    return_char_limit: 50_000,
    timeout_ms: 1000,
    requires_approval: false,
    ...rest,
  };
}
