import type { ToolCallStatus, ToolCatalog } from './contract.ts';

/**
 * Messages between the worker's side and the tool host, one object per frame.
 * The client starts the host from its own folder, so both have the same version. Frames carry no version and only their
 * length is checked.
 */

/** A call as its thread reads it. The host forwards this text unread. */
export interface CallFrame {
  /** The client's number of the call. */
  readonly id: number;
  readonly tool_name: string;
  readonly arguments: Record<string, unknown>;
  readonly agent_id: string;
  readonly run_id: string;
  readonly tool_use_id: string;
  readonly idempotency_key: string;
  readonly timeout_ms?: number | undefined;
  readonly result_char_limit?: number | undefined;
  /** Added by the host: the function was entered before, in a thread that has ended. */
  readonly entered_before?: true;
}

/**
 * A call as the host reads it: number, tool, timeout in milliseconds or 0, bytes of its {@link CallFrame} as JSON, and 1 if
 * a host ended while it may have been running, so that it runs alone.
 */
export type CallEnvelope = readonly [
  id: number,
  toolName: string,
  timeoutMs: number,
  bytes: number,
  interrupted?: 1,
];

/** An outcome from the host; the client replaces the number by the caller's key. */
export interface OutcomeFrame {
  readonly id: number;
  readonly status: ToolCallStatus;
  readonly result: string;
  readonly truncated: boolean;
  readonly duration_ms: number;
  readonly started: boolean;
  readonly error?: string;
}

/** Settings of the host, sent once, first. */
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
 * Descriptors of the child for frames, one per direction: a failed write closes its pipe unread, and the last output must
 * be read. 0 is the lifeline, 1 and 2 are log text.
 */
export const TO_HOST_FD = 3;
export const FROM_HOST_FD = 4;
