import type { QueueName } from './signal.ts';

/** Handles the signals of one queue, one at a time, across reconnects, and tracks when the backend last answered. */
export interface Consumer {
  readonly name: QueueName;
  /** Handles one payload. Rejects only when shut, so that the queue gives the payload to another process. */
  readonly handle: (payload: unknown) => Promise<void>;
  /** Called at each answer of the backend, which proves that it still delivers signals. */
  readonly noteProgress: () => void;
  isBusy(): boolean;
  /** True when the backend has not answered for `afterMs` although the consumer is free. */
  isSilent(afterMs: number): boolean;
  /** Rejects all further and waiting signals, so that the queue gives them to another process. */
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
