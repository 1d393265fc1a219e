import type { JsonObject } from '../base/json.ts';
import type { CompactionPolicy } from './compaction-policy.ts';
import type { ServerTool } from './server-tool.ts';
import type { ToolDefinition } from './tool.ts';

/**
 * The settings of an agent that its requests are built from, frozen when a batch is accepted.
 * An edit of the agent changes later batches only. Agents with equal definitions share a row.
 */
export interface Definition {
  readonly id: string;
  /** Letta's agent type; selects the rendering of memory. */
  readonly agent_type: string;
  readonly system: string;
  /** Handle, `<provider>/<model name>`. */
  readonly model: string;
  readonly model_settings: ModelSettings;
  readonly tool_rules: readonly JsonObject[];
  readonly tools: readonly ToolDefinition[];
  /**
   * Tools that the provider runs, sent behind `tools`.
   * Default: none.
   */
  readonly server_tools?: readonly ServerTool[] | null;
  /**
   * Type of its runs' results.
   * Default: anything.
   */
  readonly result_format?: ResultFormat | null;
  /**
   * Parts whose form the provider enforces, chosen when the definition is stored.
   * Default: none.
   */
  readonly strict?: StrictParts | null;
  /**
   * Maximum of prompt and answer together.
   * Unit: tokens.
   */
  readonly context_window_limit: number;
  readonly compaction: CompactionPolicy;
  /**
   * Labels of the blocks that memory calls may write; every other block is read-only.
   * Default: all.
   */
  readonly writable_labels?: readonly string[] | null;
}

/** The type of a run's result. */
export interface ResultFormat {
  /** JSON Schema of any type. */
  readonly schema: JsonObject;
}

/** Parts of a definition's requests whose form the provider enforces. */
export interface StrictParts {
  /** Names of the tools whose arguments always fit their schema. */
  readonly tools: readonly string[];
  /** Whether the last answer is JSON of the result's schema. */
  readonly result_format: boolean;
}

/** Request settings beside the messages. `extra` is passed through verbatim (thinking, output_config …). */
export interface ModelSettings {
  readonly max_output_tokens: number;
  readonly parallel_tool_calls: boolean;
  readonly extra: JsonObject;
}

/** Returns whether the requests of a definition show tools. */
export function hasTools({ tools, server_tools }: Pick<Definition, 'tools' | 'server_tools'>): boolean {
  return tools.length > 0 || (server_tools ?? []).length > 0;
}

/** Returns the fixed budget of thinking; 0 without one. */
export function thinkingBudget({ extra }: Pick<ModelSettings, 'extra'>): number {
  const budget = (extra['thinking'] as { readonly budget_tokens?: unknown } | undefined)?.budget_tokens;
  return typeof budget === 'number' ? budget : 0;
}

export const MAX_OUTPUT_TOKENS_DEFAULT = 8192;

/**
 * Parses a model handle: `anthropic/claude-x` → `{ provider: 'anthropic', name: 'claude-x' }`; null without a provider.
 */
export function parseModelHandle(
  handle: string,
): { readonly provider: string; readonly name: string } | null {
  const slash = handle.indexOf('/');
  if (slash <= 0 || slash === handle.length - 1) return null;
  return { provider: handle.slice(0, slash), name: handle.slice(slash + 1) };
}
