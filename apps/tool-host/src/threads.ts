import { setTimeout as wait } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { keptEnvironment } from './config.ts';
import { describeCrash, withoutWords } from './explain.ts';
import type { HostSettings } from './protocol.ts';
import type { ModuleInspection, ThreadReport, ThreadTask } from './task.ts';
import type { ThreadSources } from './thread-sources.ts';

/** Milliseconds after which a stopped thread counts as stuck in native code. */
const EXIT_WAIT_MS = 250;

/**
 * Distance of the engine's heap limit above ours.
 * The engine ends a thread at its limit, but a single growing array aborts the whole process. So our own check
 * (`memoryBytes`) is the real limit, and the engine's is a fallback. Unit: megabytes.
 */
const ENGINE_HEADROOM_MB = 1_024;

/** The threads of tool modules. */
export interface Threads {
  readonly lanes: LaneThreads;
  readonly threadsMax: number;
  /**
   * Runs a task; resolves with its last report. One task per thread.
   * Throws: the thread ended, or `signal` fired.
   */
  run(task: ThreadTask, signal: AbortSignal): Promise<ThreadReport>;
  inspect(file: string, signal: AbortSignal): Promise<ModuleInspection>;
  /**
   * Imports these modules in all idle fast threads, in parallel, before the first calls. Resolves when done, or at
   * `signal`, which ends unfinished imports. Never rejects: a failing module fails again when it is called.
   */
  warm(files: readonly string[], signal: AbortSignal): Promise<void>;
  /**
   * Resolves when the thread has exited and its last messages are delivered, or after a quarter of a second. Without a
   * thread id it resolves at once.
   */
  whenExited(threadId: number | undefined): Promise<void>;
  /**
   * Returns heap and buffers of the thread, garbage included. Undefined if it is gone; pending while it is in native code.
   */
  memoryBytes(threadId: number): Promise<number | undefined>;
  /** Returns the number of stopped threads that have not exited. */
  stuckThreads(): number;
}

export interface LaneThreads {
  readonly fast: number;
  readonly slow: number;
}

/** Returns the number of threads: `threads` for fast calls, twice that (at least 2) for slow calls. */
function laneThreads(settings: HostSettings): LaneThreads {
  return { fast: settings.threads, slow: Math.max(2, settings.threads * 2) };
}

/**
 * Starts a pool.
 * Fast threads start at once and stay, because a new thread costs ten thousand fast calls. Slow threads start on demand and
 * end when idle. `onReport` receives intermediate reports of tasks.
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

  /** Listens for exits: Piscina forgets a thread as soon as it stops it. */
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
      // The pool prefers idle threads, so this many tasks reach as many threads.
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

/**
 * Rejects on a null answer. Piscina takes a thrown null for no error and resolves the task with null, which none of our
 * tasks returns.
 */
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
