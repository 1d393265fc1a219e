/** A process that starts when it is first needed. */
export interface LazyHost<Host> {
  /** Returns the host, which it starts at the first call. Throws: it does not start; the next call tries again. */
  get(): Promise<Host>;
  /** Ends the host if it was started. */
  close(): Promise<void>;
}

export function createLazyHost<Host extends { close(): Promise<void> }>(
  start: () => Promise<Host>,
): LazyHost<Host> {
  let host: Promise<Host> | undefined;
  return {
    get() {
      host ??= start().catch((error: unknown) => {
        host = undefined;
        throw error;
      });
      return host;
    },
    async close() {
      await (await host?.catch(() => undefined))?.close();
    },
  };
}
