import type { Post } from './port.ts';
import type { QueueName } from './signal.ts';

/** A post that survives the connections that bring it signals: it takes one at a time and knows their pulse. */
export interface Station extends Post {
  /** Whether a signal is being handled right now. */
  isBusy(): boolean;
  /** New connections start with a fresh pulse. */
  reset(): void;
  /** No sign of life for this long, although the station was free for another signal. */
  isSilent(afterMs: number): boolean;
  /** From now on signals are turned away, so that a queue gives them to another process. */
  shut(): void;
}

/** `take` must not reject. */
export function createStation(name: QueueName, take: (payload: unknown) => Promise<void>): Station {
  let isBusy = false;
  let isShut = false;
  let pulseAtMs = performance.now();
  const waiting: (() => void)[] = [];

  function noteProgress(): void {
    pulseAtMs = performance.now();
  }

  return {
    name,
    noteProgress,
    reset: noteProgress,
    isBusy: () => isBusy,
    isSilent: (afterMs) => !isBusy && performance.now() - pulseAtMs > afterMs,
    shut() {
      isShut = true;
      for (const wake of waiting.splice(0)) wake();
    },
    async handle(payload) {
      noteProgress();
      while (isBusy && !isShut) await new Promise<void>((resolve) => waiting.push(resolve));
      if (isShut) throw new Error(`not listening to ${name} any more`);
      isBusy = true;
      try {
        await take(payload);
      } finally {
        isBusy = false;
        noteProgress();
        waiting.shift()?.();
      }
    },
  };
}
