import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { BroadcastChannel, parentPort, threadId } from 'node:worker_threads';
import type { LiveCall } from './live-call.ts';
import { inspect, loadedRun, loadRun } from './module.ts';
import { CANCEL_CHANNEL, type ModuleInspection, type ThreadReport, type ThreadTask } from './task.ts';
import { startTaskRun, type TaskRun } from './task-run.ts';
import { describeError } from './text.ts';
import { captureThreadOutput } from './thread-output.ts';

/**
 * The file each Piscina thread runs. A thread has one task at a time.
 * Everything that would let one call take down the thread unexplained is caught here only to write down whose fault
 * it is; the thread still ends, because nobody knows what state it is in.
 */

const callInProgress = new AsyncLocalStorage<LiveCall>();
captureThreadOutput(() => callInProgress.getStore());
let currentRun: TaskRun | undefined;

const exitThread = process.exit.bind(process);
process.exit = ((code?: number) => {
  currentRun?.blame(callInProgress.getStore());
  exitThread(code);
}) as typeof process.exit;

process.on('uncaughtExceptionMonitor', () => currentRun?.blame(callInProgress.getStore()));

// A promise somebody forgot is sloppy, not dangerous: the neighbours' calls are worth more than the thread's honour.
process.on('unhandledRejection', (reason) => {
  // Its text may be anybody's data, so it is the tool's output: capped, and under the name of its call.
  process.stderr.write(
    `a promise was rejected and nobody handled it: ${describeError(reason).replaceAll(/\s*[\r\n]+\s*/g, ' ')}\n`,
  );
});

const cancellations = new BroadcastChannel(CANCEL_CHANNEL);
cancellations.onmessage = (event: unknown) => {
  const { data } = event as { readonly data: readonly number[] };
  currentRun?.cancel(new Set(data));
};
cancellations.unref();

/** Runs the calls of a task and resolves with the outcomes that were not reported on the way. */
export async function runToolCalls(task: ThreadTask): Promise<ThreadReport> {
  const run = startTaskRun(task, {
    threadId,
    callInProgress,
    post: (report) => parentPort?.postMessage(report),
  });
  currentRun = run;
  try {
    return await run.finish();
  } finally {
    currentRun = undefined;
  }
}

/** Imports one module and says what it offers. Resolves even when the import throws. */
export async function inspectModule(task: { readonly file: string }): Promise<ModuleInspection> {
  try {
    const inspection = await inspect(task.file);
    // What the module throws beside its import ends the thread in this turn: after the answer it would count as the next one's.
    await nextTurn();
    return inspection;
  } catch (error) {
    return { usable: false, reason: `could not be imported: ${describeError(error)}` };
  }
}

/** Imports modules before they are called. Resolves even when an import throws. */
export async function importModules(task: { readonly files: readonly string[] }): Promise<void> {
  for (const file of task.files) {
    if (loadedRun(file) === undefined) await loadRun(file).catch(() => {});
  }
}
