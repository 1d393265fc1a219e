import type { ToolCallStatus, ToolCatalog } from './contract.ts';

/**
 * What the worker's side and the tool host say to each other, one object per frame.
 * Both ends are of one version by construction (the client starts the host from its own folder), so frames carry
 * no version and are trusted to have these shapes; only their length is checked.
 */

/** A call as its thread reads it. Only the thread does: the host hands this text on unread. */
export interface CallFrame {
  /** The client's own number for the call. */
  readonly id: number;
  readonly tool_name: string;
  readonly arguments: Record<string, unknown>;
  readonly agent_id: string;
  readonly run_id: string;
  readonly tool_use_id: string;
  readonly idempotency_key: string;
  readonly timeout_ms?: number | undefined;
  readonly result_char_limit?: number | undefined;
  /** Added by the host: its function was entered before, in a thread that has ended since. */
  readonly entered_before?: true;
}

/**
 * A call as the host reads it: its number, its tool, its own deadline in milliseconds or 0, the bytes of its {@link CallFrame}
 * as JSON, and 1 where a host has ended while it may have been running: it is made alone then.
 */
export type CallEnvelope = readonly [
  id: number,
  toolName: string,
  timeoutMs: number,
  bytes: number,
  interrupted?: 1,
];

/** An outcome on its way back; the client puts the caller's key in place of the number. */
export interface OutcomeFrame {
  readonly id: number;
  readonly status: ToolCallStatus;
  readonly result: string;
  readonly truncated: boolean;
  readonly duration_ms: number;
  readonly started: boolean;
  readonly error?: string;
}

/** How the host shall run, sent once, first. */
export interface HostSettings {
  readonly tools_dirs: readonly string[];
  readonly threads: number;
  readonly calls_in_flight_per_thread: number;
  readonly thread_memory_mb: number;
  readonly thread_idle_ms: number;
  readonly load_timeout_ms: number;
}

export type ToHost =
  | { readonly kind: 'configure'; readonly settings: HostSettings }
  /** The calls' own JSON follows as the attachment of the frame, one after the other. */
  | { readonly kind: 'calls'; readonly calls: readonly CallEnvelope[] }
  | { readonly kind: 'cancel'; readonly ids: readonly number[] }
  | { readonly kind: 'ping'; readonly request: number };

export type FromHost =
  | { readonly kind: 'ready'; readonly catalog: ToolCatalog }
  /** These calls are about to be handed to a thread. For tools that may run only once it is on the pipe before they start. */
  | { readonly kind: 'starting'; readonly ids: readonly number[] }
  | { readonly kind: 'outcomes'; readonly outcomes: readonly OutcomeFrame[] }
  | { readonly kind: 'pong'; readonly request: number };

/**
 * The descriptors of the child that carry frames, one for each way: a write that fails closes its pipe unread, and what
 * a process says last must be read. 0 is its lifeline, 1 and 2 are log text.
 */
export const TO_HOST_FD = 3;
export const FROM_HOST_FD = 4;
