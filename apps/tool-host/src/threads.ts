import { setTimeout as wait } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { keptEnvironment } from './config.ts';
import type { Speed, ToolManifest } from './contract.ts';
import type { HostSettings } from './protocol.ts';
import type { FromThread, ModuleInspection, SessionTask, ToThread } from './thread-messages.ts';
import type { ThreadSources } from './thread-sources.ts';
import { describeCrash, withoutWords } from './verdict.ts';

/** Milliseconds after which a stopped thread counts as stuck in native code. */
const EXIT_WAIT_MS = 100;
/** Idle time after which an additional thread ends. Unit: milliseconds. */
const THREAD_IDLE_MS = 30_000;

/**
 * Distance of the engine's heap limit above ours.
 * The engine ends a thread at its limit, but a single growing array aborts the whole process. So our own check
 * (`memoryBytes`) is the real limit, and the engine's is a fallback. Unit: megabytes.
 */
const ENGINE_HEADROOM_MB = 1_024;

/** The host's end of a session. */
export interface ThreadLink {
  post(message: ToThread): void;
  /**
   * Resolves when the thread has ended the session and its last messages are delivered. `crash` is set if the thread ended,
   * by itself or by the signal. A thread stuck in native code counts as ended after {@link EXIT_WAIT_MS}.
   */
  readonly ended: Promise<{ readonly crash?: { readonly error: unknown } | undefined }>;
}

/** The threads of a class of tools. */
export interface ThreadPool {
  /** Maximum number of threads, and so of sessions. */
  readonly threadsMax: number;
  /** The same for one tool: less, so that a tool leaves a thread to others. */
  readonly threadsPerTool: number;
  /** Returns the number of threads, those that start included. */
  threadsStarted(): number;
  /** Starts a session in an idle or new thread. `signal` ends the thread. */
  connect(tool: ToolManifest, onMessage: (message: FromThread) => void, signal: AbortSignal): ThreadLink;
  /**
   * Returns heap and buffers of the thread, garbage included. Undefined if it is gone; pending while it is in native code.
   */
  memoryBytes(threadId: number): Promise<number | undefined>;
  /** Returns the time in which the thread's event loop was not idle. Unit: milliseconds. */
  busyMs(threadId: number): number;
  /** Returns the number of stopped threads that have not exited. */
  stuckThreads(): number;
}

/** All threads of the host. */
export interface Threads {
  readonly pools: Readonly<Record<Speed, ThreadPool>>;
  /** Describes a module in a fast thread. Throws: the thread ended, or `signal` fired. */
  inspect(file: string, signal: AbortSignal): Promise<ModuleInspection>;
  /**
   * Imports these modules in all idle fast threads, in parallel, before the first calls. Resolves when done, or at
   * `signal`, which ends unfinished imports. Never rejects: a failing module fails again when it is called.
   */
  warm(files: readonly string[], signal: AbortSignal): Promise<void>;
}

/**
 * Starts the pools.
 * `threads` fast threads start at once and stay, because a new thread costs ten thousand fast calls. Others start on demand
 * and end when idle. A fast tool has no use for more threads than that; they are for tools that wait beside it.
 */
export function startThreads(
  settings: HostSettings,
  sources: ThreadSources,
  onFault: (message: string) => void,
): Threads {
  const { threads } = settings;

  function startPool(minThreads: number, maxThreads: number): Piscina {
    const pool = new Piscina({
      filename: new URL('./thread-entry.mjs', import.meta.url).href,
      workerData: sources,
      minThreads,
      maxThreads,
      idleTimeout: THREAD_IDLE_MS,
      // Tools hold sockets and timers between tasks; waiting on atomics would freeze them.
      atomics: 'disabled',
      env: keptEnvironment(),
      resourceLimits: { maxOldGenerationSizeMb: settings.thread_memory_mb + ENGINE_HEADROOM_MB },
      recordTiming: false,
    });
    pool.on('error', (error: Error) =>
      onFault(`a thread failed outside of any task: ${withoutWords(describeCrash(error, settings))}`),
    );
    return pool;
  }

  const threadsMax = 2 * threads + 1;
  const fast = startPool(threads, threadsMax);
  const slow = startPool(0, threadsMax);

  return {
    pools: {
      fast: threadPool(fast, threadsMax, Math.max(2, threads)),
      slow: threadPool(slow, threadsMax, 2 * threads),
    },
    async inspect(file, signal) {
      const inspection = (await fast.run(
        { file },
        { name: 'inspectModule', signal },
      )) as ModuleInspection | null;
      // Piscina takes a thrown null for no error and resolves the task with null.
      if (inspection === null) throw new Error('null');
      return inspection;
    },
    async warm(files, signal) {
      // The pool prefers idle threads, so this many tasks reach as many threads.
      const tasks = Array.from({ length: threads }, () =>
        fast.run({ files }, { name: 'importModules', signal }),
      );
      await Promise.allSettled(tasks);
    },
  };
}

function threadPool(pool: Piscina, threadsMax: number, threadsPerTool: number): ThreadPool {
  let stuck = 0;
  const threadOf = (id: number) => pool.threads.find(({ threadId }) => threadId === id);

  /** Waits for the last messages of a thread that has ended or was stopped. */
  async function drain(closed: Promise<void>): Promise<void> {
    const inTime = await Promise.race([closed.then(() => true), wait(EXIT_WAIT_MS, false)]);
    if (inTime) return;
    stuck += 1;
    void closed.then(() => {
      stuck -= 1;
    });
  }

  return {
    threadsMax,
    threadsPerTool,
    threadsStarted: () => pool.threads.length,
    connect(tool, onMessage, signal) {
      const { port1, port2 } = new MessageChannel();
      const task: SessionTask = { tool, port: port2 };
      const closed = new Promise<void>((resolve) => {
        port1.once('close', resolve);
      });
      let began = false;
      port1.on('message', (message: FromThread) => {
        began = true;
        onMessage(message);
      });
      const reply = pool.run(task, { name: 'runSession', signal, transferList: [port2] }) as Promise<unknown>;
      const ended = reply
        // A thrown null is no error for Piscina: it resolves the task with null.
        .then((answer) => (answer === true ? {} : { crash: { error: answer } }))
        .catch((error: unknown) => ({ crash: { error } }))
        .then(async (end) => {
          if (!began) port1.close();
          if ('crash' in end) await drain(closed);
          return end;
        });
      return { post: (message) => port1.postMessage(message), ended };
    },
    async memoryBytes(threadId) {
      try {
        const statistics = await threadOf(threadId)?.getHeapStatistics();
        return statistics && statistics.used_heap_size + statistics.external_memory;
      } catch {
        return undefined;
      }
    },
    busyMs: (threadId) => threadOf(threadId)?.performance.eventLoopUtilization().active ?? 0,
    stuckThreads: () => stuck,
  };
}
