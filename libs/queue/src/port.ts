import type { Signal } from './signal.ts';

/** A disposable set of sending connections. After a failure it is discarded and another is opened. */
export interface SendingLink {
  /** Sends the signals; rejects unless the backend confirms them. */
  readonly send: (signals: readonly Signal[]) => Promise<void>;
  /** Closes sockets and timers in bounded time, even if the backend hangs. Never rejects. */
  discard(): Promise<void>;
}

/** A disposable set of receiving connections. */
export interface ReceivingLink {
  /** False once the connections have failed. */
  isRunning(): boolean;
  /** Stops taking signals, waits up to `graceMs` for running handlers, and closes sockets. Never rejects. */
  discard(graceMs: number): Promise<void>;
}
