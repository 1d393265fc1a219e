import { startSweepTimer } from './sweep-timer.ts';

/** Interval of heartbeats, so that several may fail before a worker counts as dead. Unit: ms. */
const HEARTBEAT_MS = 10_000;

/**
 * Calls `beat` now and about every ten seconds, each after the end of the one before. Returns a function that ends it and
 * waits for a beat under way. `onError` gets the failures.
 */
export function startHeartbeat(
  beat: () => Promise<void>,
  onError: (error: unknown) => void,
): () => Promise<void> {
  let underWay: Promise<void> | undefined;
  const next = (): void => {
    underWay ??= beat()
      .catch(onError)
      .finally(() => (underWay = undefined));
  };
  const stop = startSweepTimer(HEARTBEAT_MS, next);
  next();
  return async () => {
    stop();
    await underWay;
  };
}
