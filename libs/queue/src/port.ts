import type { Signal } from './signal.ts';

/** One disposable set of connections that sends. Never repaired: a failed one is discarded and another is opened. */
export interface SendingLink {
  /** Sends the signals; rejects when the backend did not confirm them. */
  readonly send: (signals: readonly Signal[]) => Promise<void>;
  /** Frees sockets and timers in bounded time, whatever state the backend is in. Never rejects. */
  discard(): Promise<void>;
}

/** One disposable set of connections that receives. */
export interface ReceivingLink {
  /** False once it has ended by itself. */
  isRunning(): boolean;
  /** Stops taking signals and frees sockets; waits up to `graceMs` for handlers that are at work. Never rejects. */
  discard(graceMs: number): Promise<void>;
}
