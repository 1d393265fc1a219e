import type {
  CallbackEventName,
  Cap,
  ContentBlock,
  HoldRule,
  PilotSettings,
  ResultFormat,
  StopWhen,
  ToolChoice,
  ToolDefinition,
} from '@nightshift/agent-core';

/** A message that a caller sends to an agent. */
export interface InputMessage {
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: readonly ContentBlock[];
  /** The caller's id of the message. */
  readonly otid: string | null;
  readonly name: string | null;
}

/** One request of a batch. */
export interface NewRun {
  readonly agent_id: string;
  /** The caller's id of the request, unique in the batch. */
  readonly custom_id: string | null;
  readonly max_steps: number;
  readonly messages: readonly InputMessage[];
  /** Whether it has a conversation of its own instead of the agent's. */
  readonly isolated: boolean;
  /**
   * Runs of a batch with the same name, which stand side by side and are isolated, share a conversation: each starts in a
   * fresh context after a good end of the one before. After any other end the later ones are cancelled.
   * Default: none.
   */
  readonly sequence?: string | null;
  /** Tools that the caller carries out, in addition to the agent's tools and with other names. */
  readonly client_tools?: readonly ToolDefinition[];
  /** Required format of its result; `none`: any. Default: the agent's. */
  readonly result_format?: ResultFormat | 'none' | null;
  /** Model handle; its price and provider are the caller's checks. Default: the agent's. */
  readonly model?: string | null;
  /** System prompt. Default: the agent's. */
  readonly system?: string | null;
  /** Changes the agent's tools. Runs that share one share the object. Default: none. */
  readonly tools?: ToolChoice | null;
  /** Only the tools that rewrite memory, without tool rules; memory is shown with line numbers. Default: the agent's tools. */
  readonly memory_tools_only?: boolean;
  /** Labels of the blocks that its calls may write; null: all. Default: all. */
  readonly writable_labels?: readonly string[] | null;
  /** ISO time after which it takes no further step. Default: the batch's. */
  readonly deadline?: string | null;
  /** Its own limits. Default: none. */
  readonly cap?: Cap;
}

export interface NewBatch {
  readonly id: string;
  readonly callback_url: string | null;
  /** Events that the callback reports beside the end. Default: none. */
  readonly callback_events?: readonly CallbackEventName[];
  /** ISO time after which its runs take no further step. Default: none. */
  readonly deadline?: string | null;
  readonly metadata: object | null;
  /** Whether memory changes of its runs take effect at once (the default) or are held for review. */
  readonly apply?: 'auto' | 'review';
  /**
   * Under review: its end accepts all changes, except those of the agents that this rule names.
   * Default: a person decides about all.
   */
  readonly hold_if?: HoldRule | null;
  /** Limits for all its runs together. Default: none. */
  readonly cap?: Cap;
  /** A sample of its runs goes first. Default: none. */
  readonly pilot?: PilotSettings | null;
  /** Days from its end until it is forgotten. Default: as the workers are set. */
  readonly expires_in_days?: number | null;
  /** Default: none. */
  readonly name?: string | null;
  /** Without duplicates. Default: none. */
  readonly tags?: readonly string[];
  /** Failures that cancel it. Default: none. */
  readonly stop_when?: StopWhen | null;
  /** The batch whose runs it tries again. Default: none. */
  readonly retry_of?: string | null;
  /** In request order. */
  readonly runs: readonly NewRun[];
  /** The tick that makes the batch; its row is the caller's. Default: none. */
  readonly tick?: { readonly schedule_id: string; readonly due_at: Date } | undefined;
  /** Stored with the batch, so that a repeated request finds it. */
  readonly idempotency: {
    readonly key: string;
    readonly request_sha256: string;
    /** The request is marked as a retry. */
    readonly by_retry: boolean;
  } | null;
}
