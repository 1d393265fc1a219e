import { setTimeout as wait } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { keptEnvironment } from './config.ts';
import { describeCrash, withoutWords } from './explain.ts';
import type { HostSettings } from './protocol.ts';
import type { ModuleInspection, ThreadReport, ThreadTask } from './task.ts';
import type { ThreadSources } from './thread-sources.ts';

/** A stopped thread that has not exited after this long is in native code; nobody waits for it. */
const EXIT_WAIT_MS = 250;

/**
 * How far the engine's own heap limit lies above ours, in megabytes. The engine ends a thread that reaches its limit,
 * but it aborts the whole process when a single growing array does so, so the limit that counts is checked by us
 * (`memoryBytes`), and the engine's is there for what outruns the check.
 */
const ENGINE_HEADROOM_MB = 1_024;

/** The threads that tool modules run in. */
export interface Threads {
  readonly lanes: LaneThreads;
  readonly threadsMax: number;
  /** Resolves with the last report of the task; rejects when the thread ends or `signal` fires. One task per thread. */
  run(task: ThreadTask, signal: AbortSignal): Promise<ThreadReport>;
  inspect(file: string, signal: AbortSignal): Promise<ModuleInspection>;
  /**
   * Has as many idle threads as the fast lane needs import these modules, side by side, so that the first calls find
   * them there. Resolves when they have, or at `signal`, which ends those that have not. Never rejects: a module that
   * fails now does it again when it is called, and says so then.
   */
  warm(files: readonly string[], signal: AbortSignal): Promise<void>;
  /**
   * Resolves when the thread has exited, its last messages having been delivered, or after a quarter of a second.
   * Without a thread id it resolves at once.
   */
  whenExited(threadId: number | undefined): Promise<void>;
  /** Heap and buffers of the thread, garbage included. Undefined when it is gone; pending while it is in native code. */
  memoryBytes(threadId: number): Promise<number | undefined>;
  /** Threads told to stop that are still there. */
  stuckThreads(): number;
}

export interface LaneThreads {
  readonly fast: number;
  readonly slow: number;
}

/** How many threads there are: `threads` for fast calls and twice that (at least 2) for slow ones. */
function laneThreads(settings: HostSettings): LaneThreads {
  return { fast: settings.threads, slow: Math.max(2, settings.threads * 2) };
}

/**
 * Starts a pool. The threads of the fast lane come at once and stay, for a new one costs as much as ten thousand fast
 * calls; those of the slow lane come on demand and leave when idle. `onReport` receives what tasks report on their way.
 */
export function startThreads(
  settings: HostSettings,
  sources: ThreadSources,
  onReport: (report: ThreadReport) => void,
  onFault: (message: string) => void,
): Threads {
  const lanes = laneThreads(settings);
  const pool = new Piscina({
    filename: new URL('./thread-entry.mjs', import.meta.url).href,
    workerData: sources,
    minThreads: lanes.fast,
    maxThreads: lanes.fast + lanes.slow,
    idleTimeout: settings.thread_idle_ms,
    // Tools hold sockets and timers between tasks; waiting on atomics would freeze them.
    atomics: 'disabled',
    env: keptEnvironment(),
    resourceLimits: { maxOldGenerationSizeMb: settings.thread_memory_mb + ENGINE_HEADROOM_MB },
    recordTiming: false,
  });
  pool.on('error', (error: Error) =>
    onFault(`a thread failed outside of any task: ${withoutWords(describeCrash(error, settings))}`),
  );
  pool.on('message', (message: unknown) => {
    if (isReport(message)) onReport(message);
  });

  const exits = new Map<number, { readonly worker: Worker; readonly exited: Promise<void> }>();
  const stopped = new Set<number>();

  /** Piscina forgets a thread as soon as it stops it, so its exit must be listened for before. */
  function watchExits(workers: readonly Worker[]): void {
    for (const worker of workers) {
      const { threadId } = worker;
      if (threadId < 0 || exits.has(threadId)) continue;
      const exited = new Promise<void>((resolve) => {
        worker.once('exit', () => {
          resolve();
          exits.delete(threadId);
          stopped.delete(threadId);
        });
      });
      exits.set(threadId, { worker, exited });
    }
  }

  return {
    lanes,
    threadsMax: lanes.fast + lanes.slow,
    run(task, signal) {
      const reply = pool.run(task, { name: 'runToolCalls', signal }) as Promise<ThreadReport | null>;
      watchExits(pool.threads);
      return answerOf(reply);
    },
    inspect(file, signal) {
      return answerOf(
        pool.run({ file }, { name: 'inspectModule', signal }) as Promise<ModuleInspection | null>,
      );
    },
    async warm(files, signal) {
      // The pool gives a task to an idle thread first, so as many tasks at once reach as many threads.
      const tasks = Array.from({ length: lanes.fast }, () =>
        pool.run({ files }, { name: 'importModules', signal }),
      );
      await Promise.allSettled(tasks);
    },
    async whenExited(threadId) {
      const thread = threadId === undefined ? undefined : exits.get(threadId);
      if (threadId === undefined || thread === undefined) return;
      stopped.add(threadId);
      await Promise.race([thread.exited, wait(EXIT_WAIT_MS)]);
    },
    async memoryBytes(threadId) {
      try {
        const statistics = await exits.get(threadId)?.worker.getHeapStatistics();
        return statistics && statistics.used_heap_size + statistics.external_memory;
      } catch {
        return undefined;
      }
    },
    stuckThreads: () => stopped.size,
  };
}

/** Piscina takes a thrown null for no error, and the task whose thread it has ended for one that answered null. None of ours does. */
async function answerOf<Answer>(reply: Promise<Answer | null>): Promise<Answer> {
  const answer = await reply;
  if (answer === null) throw new Error('null');
  return answer;
}

function isReport(message: unknown): message is ThreadReport {
  return (
    typeof message === 'object' &&
    message !== null &&
    typeof (message as { task?: unknown }).task === 'number' &&
    Array.isArray((message as { indexes?: unknown }).indexes)
  );
}
