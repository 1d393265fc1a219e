import type { CallbackEventName, ServerTool } from '@nightshift/agent-core';

/** Maximum size of a batch as JSON in bytes, as in Letta. */
export const BATCH_BYTES_MAX = 256 * 1024 * 1024;
/** Default of `max_steps`. Every step waits for a provider batch, so Letta's 50 would take days. */
export const MAX_STEPS_DEFAULT = 10;

/** Letta's response format. */
export type ResponseFormat =
  | { readonly type: 'text' | 'json_object' }
  | {
      readonly type: 'json_schema';
      readonly json_schema: { readonly schema: Readonly<Record<string, unknown>> };
    };

export type ContentPart =
  | { readonly type: 'text'; readonly text: string }
  | {
      readonly type: 'image';
      readonly source:
        | { readonly type: 'base64'; readonly media_type: string; readonly data: string }
        | { readonly type: 'url'; readonly url: string };
    };

export type Content = string | readonly ContentPart[];

/** A tool whose calls the caller answers. */
export interface ClientTool {
  readonly name: string;
  readonly description?: string | null | undefined;
  readonly parameters?: Readonly<Record<string, unknown>> | null | undefined;
}

/** Names of stored tools to add to an agent's tools, to take away, or to keep alone. */
export interface ToolChoiceRequest {
  readonly add?: readonly string[] | null | undefined;
  readonly remove?: readonly string[] | null | undefined;
  readonly only?: readonly string[] | null | undefined;
}

/** A choice of tools. */
export interface ToolsRequest {
  readonly tools?: ToolChoiceRequest | null | undefined;
  /** Replace the agent's server tools. */
  readonly server_tools?: readonly ServerTool[] | null | undefined;
}

/** Limits on cost and output. */
export interface CapRequest {
  readonly max_cost_usd?: number | null | undefined;
  readonly max_output_tokens?: number | null | undefined;
}

/** The options shared by requests and templates. Their default choice of tools is that of the batch. */
interface RunOptions extends CapRequest, ToolsRequest {
  readonly agent_id: string;
  readonly max_steps?: number | null | undefined;
  readonly conversation?: 'agent' | 'isolated' | null | undefined;
  readonly client_tools?: readonly ClientTool[] | null | undefined;
  readonly response_format?: ResponseFormat | null | undefined;
  /** ISO time. */
  readonly deadline?: string | null | undefined;
}

/** The input of a run; `input` is shorthand for one user message. */
export interface InputRequest {
  readonly input?: Content | null | undefined;
  readonly messages?: readonly MessageRequest[] | null | undefined;
}

interface MessageRequest {
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: Content;
  readonly name?: string | null | undefined;
  readonly otid?: string | null | undefined;
}

/** One request of a batch. */
export interface RunRequest extends RunOptions, InputRequest {
  readonly custom_id?: string | null | undefined;
}

/** One agent and one text template for all inputs. */
export interface TemplateRequest extends RunOptions {
  readonly input: string;
}

/** Values for a template. */
export interface TemplateInput {
  readonly custom_id: string;
  readonly variables: Readonly<Record<string, unknown>>;
}

/**
 * The requested runs: a list of requests, or a template with its inputs. The choice of tools is that of all requests without
 * their own.
 */
export interface RunsRequest extends ToolsRequest {
  readonly requests?: readonly RunRequest[] | null | undefined;
  readonly template?: TemplateRequest | null | undefined;
  readonly inputs?: readonly TemplateInput[] | null | undefined;
}

/** Selects agents, like the filters of the list of agents. */
export interface AgentSelection {
  readonly ids?: readonly string[] | null | undefined;
  readonly tags?: readonly string[] | null | undefined;
  readonly match_all_tags?: boolean | null | undefined;
  readonly query_text?: string | null | undefined;
  /** Least new messages under the cursor. */
  readonly min_new_messages?: number | null | undefined;
  readonly limit?: number | null | undefined;
}

/** The fields shared by fleets and memory rewrites. */
interface SelectionRequest {
  readonly agents: AgentSelection;
  /** Name of the cursor that says which messages are new. */
  readonly cursor?: string | null | undefined;
  /** Handle; overrides the agents' models. */
  readonly model?: string | null | undefined;
  readonly max_steps?: number | null | undefined;
  readonly max_cost_usd_per_run?: number | null | undefined;
  readonly max_output_tokens_per_run?: number | null | undefined;
  /** Accepts a selection without agents. */
  readonly allow_empty?: boolean | null | undefined;
}

/** Selected agents and one text template for their inputs. */
export interface FleetRequest extends SelectionRequest, ToolsRequest {
  readonly kind?: 'fleet' | null | undefined;
  readonly input: string;
  readonly conversation?: 'agent' | 'isolated' | null | undefined;
  readonly client_tools?: readonly ClientTool[] | null | undefined;
  readonly response_format?: ResponseFormat | null | undefined;
}

/** Selected agents that rewrite their memory with our prompt. */
export interface RewriteRequest extends SelectionRequest {
  readonly kind: 'memory_rewrite';
  /** Labels of the blocks to rewrite. */
  readonly blocks: readonly string[];
  readonly instruction?: string | null | undefined;
  /** Replaces our prompt. */
  readonly prompt?: string | null | undefined;
  readonly create_blocks?: boolean | null | undefined;
  readonly parts_max?: number | null | undefined;
}

/** A sample of the runs that goes first. */
export interface PilotRequest {
  readonly runs?: number | null | undefined;
  readonly then: 'continue' | 'pause';
  readonly failure_rate?: number | null | undefined;
}

/** Failed runs at which a batch is cancelled. */
export interface StopRequest {
  readonly first?: number | null | undefined;
  readonly failure_rate?: number | null | undefined;
  readonly after?: number | null | undefined;
}

/** The fields shared by all batches. */
export interface BatchOptions extends CapRequest {
  readonly callback_url?: string | null | undefined;
  /** Events that the callback reports beside the end. */
  readonly callback_events?: readonly CallbackEventName[] | null | undefined;
  /** ISO time. */
  readonly deadline?: string | null | undefined;
  readonly metadata?: Readonly<Record<string, unknown>> | null | undefined;
  readonly apply?: 'auto' | 'review' | null | undefined;
  readonly hold_if?: { readonly shrinks_by: number } | null | undefined;
  readonly pilot?: PilotRequest | null | undefined;
  readonly expires_in_days?: number | null | undefined;
  readonly name?: string | null | undefined;
  readonly tags?: readonly string[] | null | undefined;
  readonly stop_when?: StopRequest | null | undefined;
}

/** A submitted batch, validated against the API's schema. */
export type BatchRequest = BatchOptions & (RunsRequest | FleetRequest | RewriteRequest);
