/** Calls `sweep` every `intervalMs`, with 10 % jitter either way between workers. Returns a function that ends it. */
export function startSweepTimer(intervalMs: number, sweep: () => void): () => void {
  let timer: NodeJS.Timeout;
  const next = (): void => {
    timer = setTimeout(
      () => {
        next();
        sweep();
      },
      intervalMs * (0.9 + 0.2 * Math.random()),
    );
  };
  next();
  return () => {
    clearTimeout(timer);
  };
}
