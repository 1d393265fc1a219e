import type { JsonObject } from '../base/json.ts';
import type { CompactionPolicy } from './compaction-policy.ts';
import type { ToolDefinition } from './tool.ts';

/**
 * The part of an agent that its requests are built from, frozen when a batch is accepted: an edit of the agent
 * changes later batches, never one under way. Equal definitions are one row, whatever the number of agents.
 */
export interface Definition {
  readonly id: string;
  /** Letta's agent type; decides how memory is rendered. */
  readonly agent_type: string;
  readonly system: string;
  /** Handle, `<provider>/<model name>`. */
  readonly model: string;
  readonly model_settings: ModelSettings;
  readonly tool_rules: readonly JsonObject[];
  readonly tools: readonly ToolDefinition[];
  /** What the result of its runs must look like; default: anything. */
  readonly result_format?: ResultFormat | null;
  /** Tokens of prompt and answer together. */
  readonly context_window_limit: number;
  readonly compaction: CompactionPolicy;
}

/** The type of a run's result. */
export interface ResultFormat {
  /** JSON Schema, of any type. */
  readonly schema: JsonObject;
}

/** Request settings beside the messages. `extra` is passed through verbatim (thinking, output_config …). */
export interface ModelSettings {
  readonly max_output_tokens: number;
  readonly parallel_tool_calls: boolean;
  readonly extra: JsonObject;
}

export const MAX_OUTPUT_TOKENS_DEFAULT = 8192;

/** `anthropic/claude-x` → `{ provider: 'anthropic', name: 'claude-x' }`; null when there is no provider. */
export function parseModelHandle(
  handle: string,
): { readonly provider: string; readonly name: string } | null {
  const slash = handle.indexOf('/');
  if (slash <= 0 || slash === handle.length - 1) return null;
  return { provider: handle.slice(0, slash), name: handle.slice(slash + 1) };
}
