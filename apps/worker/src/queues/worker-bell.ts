import type { Bell, Signal, SignalKind } from '@nightshift/queue';

/** Milliseconds between two rings to the neighbours, who look for themselves meanwhile. */
export const RING_INTERVAL_MS = 10_000;
/** Signals of a kind in one ring: each wakes a worker, which looks for all that is due. */
const ALIKE_MAX = 8;

/** The bell of a worker. */
export interface HouseBell extends Bell {
  /**
   * Whether a signal that came through the queue is one of the last ring's: its own house was asked to look then, and need
   * not be again. Each counts once. A neighbour's ring for the same row may pass for ours, which costs latency only.
   */
  takeEcho(signal: Signal): boolean;
}

/**
 * A bell that is heard in its own house at once, without the queue, and by the other workers at once or, when they have
 * just been rung for, within {@link RING_INTERVAL_MS}: a worker that commits chunk after chunk sends few signals.
 * `ring` resolves when nothing is left for its caller to wait for; what waits when the bell closes is sent first.
 */
export function createHouseBell(bell: Bell, kick: (kind: SignalKind) => void): HouseBell {
  let waiting: Signal[] = [];
  /** Of the last ring, those that name a row: of the others nobody can tell whose they are. */
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
    takeEcho: (signal) => sent.delete(keyOf(signal)),
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
