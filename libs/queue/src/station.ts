import type { Post } from './port.ts';
import type { QueueName } from './signal.ts';

/** A post that outlives the workers that man it: it limits what is under way across them and knows their pulse. */
export interface Station extends Post {
  /** How many signals are being handled right now. */
  busy(): number;
  /** New workers start with a fresh pulse. */
  reset(): void;
  /** No answered claim for this long, although there was room for another signal. */
  isSilent(afterMs: number): boolean;
  /** From now on what arrives is turned away, so that the queue gives it to another process. */
  shut(): void;
}

/** `take` must not reject. */
export function createStation(
  name: QueueName,
  concurrency: number,
  take: (payload: unknown) => Promise<void>,
): Station {
  let underWay = 0;
  let isShut = false;
  let pulseAtMs = performance.now();
  const waiting: (() => void)[] = [];

  function noteProgress(): void {
    pulseAtMs = performance.now();
  }

  return {
    name,
    concurrency,
    noteProgress,
    reset: noteProgress,
    busy: () => underWay,
    isSilent: (afterMs) => underWay < concurrency && performance.now() - pulseAtMs > afterMs,
    shut() {
      isShut = true;
      for (const wake of waiting.splice(0)) wake();
    },
    async handle(payload) {
      noteProgress();
      // Only met when workers were replaced while a handler of theirs was still at it.
      while (underWay >= concurrency && !isShut) await new Promise<void>((resolve) => waiting.push(resolve));
      if (isShut) throw new Error(`not listening to ${name} any more`);
      underWay += 1;
      try {
        await take(payload);
      } finally {
        underWay -= 1;
        noteProgress();
        waiting.shift()?.();
      }
    },
  };
}
