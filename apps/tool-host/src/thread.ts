import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { threadId } from 'node:worker_threads';
import { inspect, loadRun } from './module.ts';
import { describeError } from './text.ts';
import type { FromThread, ModuleInspection, SessionTask, ToThread } from './thread-messages.ts';
import { captureThreadOutput } from './thread-output.ts';
import { startThreadSession, type LiveCall, type ThreadSession } from './thread-session.ts';

/**
 * The code of each Piscina thread, which has one task at a time. Errors outside calls are caught only to record their
 * cause; the thread still ends, because its state is unknown.
 */

const callInProgress = new AsyncLocalStorage<LiveCall>();
captureThreadOutput(() => callInProgress.getStore());
let session: ThreadSession | undefined;

function blame(): void {
  const call = callInProgress.getStore();
  if (call !== undefined) session?.blame(call);
}

const exitThread = process.exit.bind(process);
process.exit = ((code?: number) => {
  blame();
  exitThread(code);
}) as typeof process.exit;

process.on('uncaughtExceptionMonitor', blame);

// A forgotten promise is not dangerous: to end the thread would cost the neighbours' calls.
process.on('unhandledRejection', (reason) => {
  // The text may be private data, so it counts as the tool's output: capped, and under its call's name.
  process.stderr.write(
    `unhandled promise rejection: ${describeError(reason).replaceAll(/\s*[\r\n]+\s*/g, ' ')}\n`,
  );
});

/** Runs the calls that come over the port. Resolves with true when the host has ended the session. */
export async function runSession({ tool, port }: SessionTask): Promise<true> {
  const post = (message: FromThread): void => port.postMessage(message);
  const started = startThreadSession(tool, callInProgress, post);
  session = started;
  port.on('message', (message: ToThread) => started.receive(message));
  post({ kind: 'began', threadId });
  try {
    started.open(await loadRun(tool.file));
  } catch (error) {
    post({ kind: 'not_imported', reason: describeError(error) });
  }
  await started.ended;
  session = undefined;
  port.close();
  return true;
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
  for (const file of task.files) await loadRun(file).catch(() => {});
}
