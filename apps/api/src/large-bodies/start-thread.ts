import { Worker } from 'node:worker_threads';
import type { HandedOver } from './handed-over.ts';
import type { FromThread, ThreadAnswer, ThreadSettings, ToThread } from './protocol.ts';

/** The thread that works on large bodies, so that they hold up no other request. */
export interface LargeBodyThread {
  /** Has a request answered; its body moves to the thread. Rejects when the thread ends before. */
  answer(request: HandedOver): Promise<ThreadAnswer>;
  /** Ends the thread, whatever it is at: Postgres rolls back its open transactions. */
  stop(): Promise<void>;
}

interface Asked {
  resolve(answer: ThreadAnswer): void;
  reject(error: Error): void;
}

/** What the thread tells besides answers. */
export interface ThreadEvents {
  onRing(signals: Extract<FromThread, { kind: 'ring' }>['signals']): void;
  onLog(line: string): void;
  /** The thread has ended by itself, such as for want of memory. */
  onExit(): void;
}

/** Makes the thread, which starts with the first request and again with the next one after it has ended. */
export function createLargeBodyThread(settings: ThreadSettings, events: ThreadEvents): LargeBodyThread {
  let running: { readonly worker: Worker; readonly asked: Map<number, Asked> } | null = null;
  let ids = 0;

  const start = () => {
    const asked = new Map<number, Asked>();
    const worker = new Worker(new URL('./thread.ts', import.meta.url), {
      workerData: settings,
      execArgv: [],
    });
    let cause = new Error('The thread of large bodies has ended.');
    worker.on('error', (error: Error) => (cause = error));
    worker.on('message', (message: FromThread) => {
      if (message.kind === 'ring') events.onRing(message.signals);
      else if (message.kind === 'log') events.onLog(message.line);
      else {
        const request = asked.get(message.id);
        asked.delete(message.id);
        if (message.kind === 'answer') request?.resolve(message.answer);
        else request?.reject(message.error);
      }
    });
    worker.on('exit', () => {
      running = null;
      events.onExit();
      for (const request of asked.values()) request.reject(cause);
    });
    return { worker, asked };
  };

  return {
    answer: (request) => {
      const { worker, asked } = (running ??= start());
      const message: ToThread = { id: ++ids, request };
      return new Promise((resolve, reject) => {
        asked.set(message.id, { resolve, reject });
        worker.postMessage(
          message,
          request.body.map(({ buffer }) => buffer),
        );
      });
    },
    stop: async () => {
      await running?.worker.terminate();
    },
  };
}
