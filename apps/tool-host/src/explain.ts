import type { ToolManifest } from './contract.ts';
import type { HostSettings } from './protocol.ts';
import { describeError } from './text.ts';
import type { EndedWhy, ThreadEnd } from './verdict.ts';

/** Returns the text of an out-of-memory end. All texts of this file reach the model and the log. */
export function outOfMemory(settings: HostSettings): string {
  return `out of memory (a thread has ${settings.thread_memory_mb} MB)`;
}

/** Returns the reason for stopping a thread. */
export function describeEnd(end: ThreadEnd, settings: HostSettings): string {
  const texts: Readonly<Record<ThreadEnd, string>> = {
    deadline: 'another call ran over its deadline',
    cancelled: 'the caller gave up',
    load_timeout: `importing a module took longer than ${settings.load_timeout_ms} ms`,
    no_start: 'no thread began the task in time',
    stuck: 'code left running by an ended call blocked it',
    crash: 'it crashed',
  };
  return texts[end];
}

/** Returns the reason for a crash, by the pool's error. */
export function describeCrash(error: unknown, settings: HostSettings): string {
  // A tool may throw any value, null included.
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') return outOfMemory(settings);
  const exit = /^worker exited with code: (-?\d+)$/.exec(String(message));
  if (exit !== null) return `process.exit(${exit[1]})`;
  return `uncaught ${describeError(error)}`;
}

/** Removes the message of an error, which may contain private data. */
export function withoutWords(detail: string): string {
  return detail.startsWith('uncaught ') ? 'uncaught error' : detail;
}

/** Returns the error text of a call whose caller gave up while it waited for a thread. */
export function explainGivenUp(enteredBefore: boolean): string {
  return enteredBefore
    ? 'AbortError: the caller gave up'
    : 'AbortError: the caller gave up before the call started';
}

/** Returns the error text of a call whose module cannot be imported. `reason`: the failure of the import. */
export function explainNotImported(toolName: string, reason: string): string {
  return `the module of ${toolName} could not be imported by a new thread (${reason})`;
}

/** Returns the error text of a call of a module that no thread may run, or undefined. */
export function explainRefused(toolName: string, tool: ToolManifest | undefined): string | undefined {
  if (tool === undefined)
    return `Tool not found: ${toolName}. It has no module here any more; go on without it.`;
  if (tool.concurrency === null) return undefined;
  return `${toolName} exports concurrency, so another process runs it; the threads of this host do not.`;
}

/** Returns the error text of a call that ended with its thread. */
export function explain(why: EndedWhy, tool: ToolManifest, timeoutMs: number, detail: string): string {
  const texts: Readonly<Record<EndedWhy, string>> = {
    deadline: `TimeoutError: ${tool.name} ran longer than ${timeoutMs} ms and was stopped with its thread`,
    cancelled: 'AbortError: the caller gave up',
    thread: `no thread could run ${tool.name} (${detail})`,
    culprit: `${tool.name} ended its thread: ${detail}`,
    neighbour: `${tool.name} was interrupted because its thread ended (${detail})`,
  };
  return texts[why];
}
