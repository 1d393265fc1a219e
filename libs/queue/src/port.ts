import { NightshiftError } from '@nightshift/agent-core';
import type { QueueName, Signal } from './signal.ts';

/** One disposable set of connections that sends. Never repaired: a failed one is discarded and another is opened. */
export interface SendingLink {
  /** Sends the signals; rejects when the backend did not confirm them. */
  readonly send: (signals: readonly Signal[]) => Promise<void>;
  /** Frees sockets and timers in bounded time, whatever state the backend is in. Never rejects. */
  discard(): Promise<void>;
}

/** What one queue's worker does with what it is handed. */
export interface Post {
  readonly name: QueueName;
  /** Handles one payload. Rejects only to have the queue give it to another process; whether the work went well is not told. */
  readonly handle: (payload: unknown) => Promise<void>;
  /** Called whenever the worker has proven, by an answered claim, that it still asks for signals. */
  readonly noteProgress: () => void;
}

/** One disposable set of connections that receives. */
export interface ReceivingLink {
  /** False once it has ended by itself. */
  isRunning(): boolean;
  /** Stops taking signals and frees sockets; waits up to `graceMs` for handlers that are at work. Never rejects. */
  discard(graceMs: number): Promise<void>;
}

/** Refused for good, not merely out of reach: the operator has to change something. */
export class QueueRefusedError extends NightshiftError {
  override readonly name = 'QueueRefusedError';

  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('bad_configuration', message, options);
  }
}
