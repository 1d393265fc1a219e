import type { Readable } from 'node:stream';
import { Worker, type ResourceLimits } from 'node:worker_threads';
import type { HandedOver } from './handed-over.ts';
import type { FromThread, ThreadAnswer, ThreadSettings, ToThread } from './protocol.ts';

/** A thread that handles large bodies, so that they do not delay other requests. */
export interface LargeBodyThread {
  /**
   * Answers a request and moves its body to the thread, the parts of an upload as the thread asks for them. Rejects if the
   * thread ends first.
   */
  answer(request: HandedOver, upload?: Readable): Promise<ThreadAnswer>;
  /** Ends the thread at once. PostgreSQL rolls back its open transactions. */
  stop(): Promise<void>;
}

interface Asked {
  /** The parts of an upload. */
  readonly parts: AsyncIterator<Buffer> | undefined;
  resolve(answer: ThreadAnswer): void;
  reject(error: Error): void;
}

/** Events of the thread other than answers. */
export interface ThreadEvents {
  onRing(signals: Extract<FromThread, { kind: 'ring' }>['signals']): void;
  onLog(line: string): void;
  /** The thread ended on its own, for example for lack of memory. */
  onExit(): void;
}

/** Sends the next part of an upload to the thread, in memory of its own. */
async function sendPart(worker: Worker, id: number, parts: AsyncIterator<Buffer> | undefined): Promise<void> {
  if (parts === undefined) return;
  const message = await parts.next().then(
    ({ done, value }): ToThread => ({
      kind: 'part',
      id,
      part: done === true ? null : new Uint8Array(value),
    }),
    (error: unknown): ToThread => ({ kind: 'cut', id, error: error as Error }),
  );
  worker.postMessage(message, message.kind === 'part' && message.part !== null ? [message.part.buffer] : []);
}

/** Creates the thread. It starts with the first request, and restarts with the next request after it ended. `resourceLimits`: of its heap. */
export function createLargeBodyThread(
  settings: ThreadSettings,
  events: ThreadEvents,
  resourceLimits: ResourceLimits = {},
): LargeBodyThread {
  let running: { readonly worker: Worker; readonly asked: Map<number, Asked> } | null = null;
  let ids = 0;

  const start = () => {
    const asked = new Map<number, Asked>();
    const worker = new Worker(new URL('./thread.ts', import.meta.url), {
      workerData: settings,
      execArgv: [],
      resourceLimits,
    });
    let cause = new Error('The thread of large bodies has ended.');
    worker.on('error', (error: Error) => (cause = error));
    worker.on('message', (message: FromThread) => {
      if (message.kind === 'ring') events.onRing(message.signals);
      else if (message.kind === 'log') events.onLog(message.line);
      else if (message.kind === 'next') void sendPart(worker, message.id, asked.get(message.id)?.parts);
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
    answer: (request, upload) => {
      const { worker, asked } = (running ??= start());
      const message: ToThread = { kind: 'request', id: ++ids, request };
      // The request stays open for the answer.
      const parts = upload?.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer> | undefined;
      return new Promise((resolve, reject) => {
        asked.set(message.id, { parts, resolve, reject });
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
