import type { QueueName } from './signal.ts';

/** Takes the signals of one queue, one at a time; survives the connections that bring them and knows their pulse. */
export interface Consumer {
  readonly name: QueueName;
  /** Handles one payload. Rejects only to have a queue give it to another process, whether or not the work went well. */
  readonly handle: (payload: unknown) => Promise<void>;
  /** Called whenever the backend has proven, by an answer, that it still brings signals. */
  readonly noteProgress: () => void;
  /** Whether a signal is being handled right now. */
  isBusy(): boolean;
  /** No sign of life for this long, although the consumer was free for another signal. */
  isSilent(afterMs: number): boolean;
  /** From now on signals are turned away, so that a queue gives them to another process. */
  shut(): void;
}

export type Consumers = Readonly<Record<QueueName, Consumer>>;

/** `take` must not reject. */
export function createConsumer(name: QueueName, take: (payload: unknown) => Promise<void>): Consumer {
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
