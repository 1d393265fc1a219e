import type { ToolManifest } from './contract.ts';
import type { HostSettings } from './protocol.ts';
import type { EndedWhy, ThreadEnd } from './settle.ts';
import { describeError } from './text.ts';

/** Returns the text of an out-of-memory end. All texts of this file reach the model and the log. */

export function outOfMemory(settings: HostSettings): string {
  return `out of memory (a thread has ${settings.thread_memory_mb} MB)`;
}

/** Returns the reason for stopping a thread. */
export function describeEnd(end: ThreadEnd, settings: HostSettings): string {
  switch (end) {
    case 'deadline':
      return 'another call ran over its deadline';
    case 'cancelled':
      return 'the caller gave up';
    case 'load_timeout':
      return `importing a module took longer than ${settings.load_timeout_ms} ms`;
    case 'not_imported':
      return 'a module could not be imported';
    case 'no_start':
      return `no thread began the task in time`;
    case 'stuck':
      return 'code left running by an ended call blocked it';
    case 'crash':
      return 'it crashed';
  }
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

/** Returns the error text of a call that ended with its thread. */
export function explain(why: EndedWhy, tool: ToolManifest, timeoutMs: number, detail: string): string {
  switch (why) {
    case 'deadline':
      return `TimeoutError: ${tool.name} ran longer than ${timeoutMs} ms and was stopped with its thread`;
    case 'cancelled':
      return 'AbortError: the caller gave up';
    case 'module':
      return explainNotImported(tool.name, detail);
    case 'thread':
      return `no thread could run ${tool.name} (${detail})`;
    case 'culprit':
      return `${tool.name} ended its thread: ${detail}`;
    case 'neighbour':
      return `${tool.name} was interrupted because its thread ended (${detail})`;
    case 'outcome_lost':
      return `${tool.name} ran, but its result was lost with its thread (${detail})`;
  }
}
