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
 * The code of each Piscina thread, which has one task at a time. Errors outside calls are caught only to record their
 * cause; the thread still ends, because its state is unknown.
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

// A forgotten promise is not dangerous: to end the thread would cost the neighbours' calls.
process.on('unhandledRejection', (reason) => {
  // The text may be private data, so it counts as the tool's output: capped, and under its call's name.
  process.stderr.write(
    `unhandled promise rejection: ${describeError(reason).replaceAll(/\s*[\r\n]+\s*/g, ' ')}\n`,
  );
});

const cancellations = new BroadcastChannel(CANCEL_CHANNEL);
cancellations.onmessage = (event: unknown) => {
  const { data } = event as { readonly data: readonly number[] };
  currentRun?.cancel(new Set(data));
};
cancellations.unref();

/** Runs the calls of a task and resolves with the outcomes not reported before. */
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

/** Imports one module and describes it. Resolves even if the import throws. */
export async function inspectModule(task: { readonly file: string }): Promise<ModuleInspection> {
  try {
    const inspection = await inspect(task.file);
    // Errors thrown beside the import end the thread in this turn: after the answer they would count as the next module's.
    await nextTurn();
    return inspection;
  } catch (error) {
    return { usable: false, reason: `could not be imported: ${describeError(error)}` };
  }
}

/** Imports modules before their first call. Resolves even if an import throws. */
export async function importModules(task: { readonly files: readonly string[] }): Promise<void> {
  for (const file of task.files) {
    if (loadedRun(file) === undefined) await loadRun(file).catch(() => {});
  }
}
