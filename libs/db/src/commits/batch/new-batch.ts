import type { Cap, ContentBlock, ResultFormat, ToolDefinition } from '@nightshift/agent-core';

/** A message that a caller sends to an agent. */
export interface InputMessage {
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: readonly ContentBlock[];
  /** The caller's own name for it. */
  readonly otid: string | null;
  readonly name: string | null;
}

/** One request of a batch. */
export interface NewRun {
  readonly agent_id: string;
  /** The caller's own name for it, unique in the batch. */
  readonly custom_id: string | null;
  readonly max_steps: number;
  readonly messages: readonly InputMessage[];
  /** Whether it reads and writes a conversation of its own instead of the agent's. */
  readonly isolated: boolean;
  /** Tools that the caller carries out, in addition to the agent's; their names are none of the agent's. */
  readonly client_tools?: readonly ToolDefinition[];
  /** What its result must look like; `none`: anything; default: as its agent says. */
  readonly result_format?: ResultFormat | 'none' | null;
  /** ISO time from when on it takes no further step; default: its batch's. */
  readonly deadline?: string | null;
  /** What it may use; absent: no limit of its own. */
  readonly cap?: Cap;
}

export interface NewBatch {
  readonly id: string;
  readonly callback_url: string | null;
  /** ISO time from when on none of its runs takes a further step; default: none. */
  readonly deadline?: string | null;
  readonly metadata: object | null;
  /** Whether what its runs change in memory is in force at once (the default), or held until it is accepted. */
  readonly apply?: 'auto' | 'review';
  /** What all its runs together may use; absent: no limit. */
  readonly cap?: Cap;
  /** In request order. */
  readonly runs: readonly NewRun[];
  /** Recorded with the batch, so that a repetition of the request finds it. */
  readonly idempotency: {
    readonly key: string;
    readonly request_sha256: string;
    /** The request said that it is a retry. */
    readonly by_retry: boolean;
  } | null;
}
