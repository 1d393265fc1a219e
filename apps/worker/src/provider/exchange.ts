/** The life of one HTTP exchange: it ends when its time is up, when its caller gives up, or when it is closed. */
export interface Exchange {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  hasTimedOut(): boolean;
  /** From here on time no longer matters; the caller's signal still does. */
  stopTimer(): void;
  /** Ends it and lets go of the caller's signal. What was not read by then never will be. */
  close(): void;
}

/** Begins an exchange of at most `timeoutMs` that ends earlier when `callerSignal` is aborted. */
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
