import type { Cap, ContentBlock, ResultFormat, ToolDefinition } from '@nightshift/agent-core';

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
  /** Tools that the caller carries out, in addition to the agent's tools and with other names. */
  readonly client_tools?: readonly ToolDefinition[];
  /** Required format of its result; `none`: any. Default: the agent's. */
  readonly result_format?: ResultFormat | 'none' | null;
  /** ISO time after which it takes no further step. Default: the batch's. */
  readonly deadline?: string | null;
  /** Its own limits. Default: none. */
  readonly cap?: Cap;
}

export interface NewBatch {
  readonly id: string;
  readonly callback_url: string | null;
  /** ISO time after which its runs take no further step. Default: none. */
  readonly deadline?: string | null;
  readonly metadata: object | null;
  /** Whether memory changes of its runs take effect at once (the default) or are held for review. */
  readonly apply?: 'auto' | 'review';
  /** Limits for all its runs together. Default: none. */
  readonly cap?: Cap;
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
