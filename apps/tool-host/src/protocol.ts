import type { FromHost, ToHost } from '@nightshift/host-process';
import type { ToolCallOutcome, ToolCallRequest, ToolCatalog } from './contract.ts';

/**
 * Messages between the worker's side and the tool host.
 * The client starts the host from its own folder, so both have the same version and messages are not checked.
 */

/** Maximum length of a message: 64 MiB. Unit: bytes of JSON. */
export const FRAME_BYTES_MAX = 64 * 1024 * 1024;

/** A call as its thread reads it. */
export type CallFrame = Omit<ToolCallRequest, 'call_id' | 'tool_name'> & {
  readonly id: number;
  readonly arguments: Record<string, unknown>;
};

/** A call as the host reads it. */
export interface WireCall {
  readonly tool_name: string;
  /** The request's timeout; 0: it has none. Unit: milliseconds. */
  readonly timeout_ms: number;
  /** The {@link CallFrame} without its id, as JSON. The host forwards this text unread. */
  readonly frame: string;
}

/** The outcome of a call, without the caller's key. */
export type OutcomeFrame = Omit<ToolCallOutcome, 'call_id' | 'unavailable'>;

/** Settings of the host, its only argument, as JSON. */
export interface HostSettings {
  readonly tools_dirs: readonly string[];
  readonly threads: number;
  readonly thread_memory_mb: number;
  readonly load_timeout_ms: number;
}

/** Sent once, before `ready`. */
export interface CatalogMessage {
  readonly kind: 'catalog';
  readonly catalog: ToolCatalog;
}

export type ToToolHost = ToHost<WireCall>;
export type FromToolHost = FromHost<OutcomeFrame> | CatalogMessage;
