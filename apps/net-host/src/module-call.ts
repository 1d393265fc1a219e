import { pathToFileURL } from 'node:url';
import type { ModuleCall, WaitingModule } from './contract.ts';
import { describeError, failed, succeeded, type Outcome, type Progress } from './progress.ts';

/**
 * Calls a module's `run` on this event loop. A module that ignores its signal goes on, but its call ends.
 * A string is returned unchanged, any other value as JSON, `undefined` as `null`.
 */
export async function runModuleCall(
  call: ModuleCall,
  progress: Progress,
  cancelled: AbortSignal,
): Promise<Outcome> {
  const deadline = AbortSignal.timeout(call.timeout_ms);
  const signal = AbortSignal.any([deadline, cancelled]);
  const ended = new Promise<Outcome>((resolve) => {
    const end = (): void =>
      resolve(
        cancelled.aborted
          ? { status: 'crashed', text: 'the caller gave up' }
          : { status: 'timed_out', text: `the tool ran longer than ${call.timeout_ms} ms` },
      );
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  });
  return Promise.race([runToEnd(call, progress, signal), ended]);
}

async function runToEnd(call: ModuleCall, progress: Progress, signal: AbortSignal): Promise<Outcome> {
  try {
    const module = await loadModule(call.file);
    if (signal.aborted) return failed('the call ended before the module was loaded');
    progress.started = true;
    progress.attempts = 1;
    const {
      agent_id: agentId,
      run_id: runId,
      tool_use_id: toolUseId,
      idempotency_key: idempotencyKey,
    } = call;
    const value = await module.run(call.arguments, { signal, agentId, runId, toolUseId, idempotencyKey });
    // In a list, values without JSON (undefined, functions) become null.
    return succeeded(typeof value === 'string' ? value : JSON.stringify([value]).slice(1, -1));
  } catch (error) {
    return failed(describeError(error));
  }
}

/**
 * Imports a module, once per process: its named exports, or its default export if that holds `run`.
 * Throws: the import fails, or the module does not say that it may share the event loop.
 */
async function loadModule(file: string): Promise<WaitingModule> {
  const namespace = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  const { default: fallback } = namespace;
  const module = namespace['run'] === undefined && fallback !== undefined ? fallback : namespace;
  const { run, concurrency } = (module ?? {}) as Partial<WaitingModule>;
  if (typeof run !== 'function') throw new TypeError(`${file} exports no function named run`);
  if (!Number.isInteger(concurrency) || (concurrency ?? 0) < 1)
    throw new TypeError(`${file} exports no concurrency, so it needs a thread of its own`);
  return module as WaitingModule;
}
