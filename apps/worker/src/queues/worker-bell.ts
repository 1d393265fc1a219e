import type { Bell, Signal, SignalKind } from '@nightshift/queue';

/** Minimum interval between two rings to other workers, whose sweeps find the work meanwhile. Unit: ms. */
export const RING_INTERVAL_MS = 10_000;
/** Maximum signals of one kind in a ring: each wakes one worker, which finds all due rows. */
const ALIKE_MAX = 8;

/** The bell of a worker, which also kicks the worker's own pumps. */
export interface WorkerBell extends Bell {
  /**
   * Returns whether this worker sent the signal in its last ring, and so has kicked already. Each signal
   * counts once. Another worker's signal for the same row may be mistaken for it, which costs only latency.
   */
  takeOwnSignal(signal: Signal): boolean;
}

/**
 * Wraps a bell: kicks this worker's pumps at once, and rings other workers at most every {@link RING_INTERVAL_MS}.
 * So a worker that commits chunk after chunk sends few signals. `close` sends the waiting signals first.
 */
export function createWorkerBell(bell: Bell, kick: (kind: SignalKind) => void): WorkerBell {
  let waiting: Signal[] = [];
  /** Signals of the last ring that name a row: the sender of a `'*'` cannot be recognized. */
  let sent = new Set<string>();
  let pause: NodeJS.Timeout | undefined;

  function kickEach(signals: readonly Signal[]): void {
    for (const { kind } of signals) kick(kind);
  }

  function send(): Promise<void> {
    const signals = waiting;
    waiting = [];
    sent = new Set(signals.filter(({ id }) => id !== '*').map(keyOf));
    pause =
      signals.length === 0
        ? undefined
        : setTimeout(() => {
            void send();
          }, RING_INTERVAL_MS).unref();
    return signals.length === 0 ? Promise.resolve() : bell.ring(signals);
  }

  return {
    backend: bell.backend,
    async ring(signals) {
      kickEach(signals);
      if (bell.backend === 'none') return;
      for (const signal of signals) {
        const alike = waiting.filter(({ kind }) => kind === signal.kind);
        if (alike.length < ALIKE_MAX && alike.every(({ id }) => id !== signal.id)) waiting.push(signal);
      }
      if (pause === undefined) await send();
    },
    takeOwnSignal: (signal) => sent.delete(keyOf(signal)),
    async close() {
      clearTimeout(pause);
      await send();
      clearTimeout(pause);
      await bell.close();
    },
  };
}

function keyOf({ kind, id }: Signal): string {
  return `${kind} ${id}`;
}
