import type { ToolCallOutcome, ToolCallRequest, ToolCatalog } from './contract.ts';

/**
 * Messages between the worker's side and the tool host, one object per frame.
 * The client starts the host from its own folder, so both have the same version. Frames carry no version and only their
 * length is checked.
 */

/** A call as its thread reads it, under the client's number. The host forwards this text unread. */
export type CallFrame = Omit<ToolCallRequest, 'call_id'> & {
  readonly id: number;
  readonly arguments: Record<string, unknown>;
};

/** A call as the host reads it: number, tool, timeout in milliseconds or 0, and its {@link CallFrame} as JSON. */
export type CallEntry = readonly [id: number, toolName: string, timeoutMs: number, json: string];

/** An outcome from the host; the client replaces the number by the caller's key. */
export type OutcomeFrame = Omit<ToolCallOutcome, 'call_id' | 'unavailable'> & { readonly id: number };

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
  /** `interrupted`: a host ended while these calls may have been running, so each runs alone. */
  | {
      readonly kind: 'calls';
      readonly calls: readonly CallEntry[];
      readonly interrupted: readonly number[];
    }
  | { readonly kind: 'cancel'; readonly id: number }
  | { readonly kind: 'ping' };

export type FromHost =
  | { readonly kind: 'ready'; readonly catalog: ToolCatalog }
  /** These calls are about to be handed to a thread. For `once` tools the frame is on the pipe before they start. */
  | { readonly kind: 'starting'; readonly ids: readonly number[] }
  | { readonly kind: 'outcomes'; readonly outcomes: readonly OutcomeFrame[] }
  | { readonly kind: 'pong' };

/**
 * Descriptors of the child for frames, one per direction: a failed write closes its pipe unread, and the last output must
 * be read. 0 is the lifeline, 1 and 2 are log text.
 */
export const TO_HOST_FD = 3;
export const FROM_HOST_FD = 4;
