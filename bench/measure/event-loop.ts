import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Delay of a process's event loop, in milliseconds. */
export interface LoopDelay {
  readonly p99_ms: number;
  readonly max_ms: number;
}

/** Watches this process's event loop until the returned function is called. */
export function watchEventLoop(): () => LoopDelay {
  const histogram = monitorEventLoopDelay({ resolution: 5 });
  histogram.enable();
  return () => {
    histogram.disable();
    // The histogram counts its own interval as delay.
    const toMs = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - 5);
    return { p99_ms: toMs(histogram.percentile(99)), max_ms: toMs(histogram.max) };
  };
}
