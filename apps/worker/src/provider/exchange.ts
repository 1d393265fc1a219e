/** One HTTP exchange. It ends by its timeout, by the caller's signal, or when it is closed. */
export interface Exchange {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  hasTimedOut(): boolean;
  /** Cancels the timeout; the caller's signal still ends the exchange. */
  stopTimer(): void;
  /** Aborts the exchange, with any unread response, and detaches the caller's signal. */
  close(): void;
}

/** Starts an exchange with a timeout; an abort of `callerSignal` ends it earlier. */
export function beginExchange(timeoutMs: number, callerSignal?: AbortSignal): Exchange {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    abort();
  }, timeoutMs);
  if (callerSignal?.aborted === true) abort();
  callerSignal?.addEventListener('abort', abort, { once: true });
  return {
    signal: controller.signal,
    timeoutMs,
    hasTimedOut: () => timedOut,
    stopTimer: () => clearTimeout(timer),
    close() {
      clearTimeout(timer);
      callerSignal?.removeEventListener('abort', abort);
      abort();
    },
  };
}
