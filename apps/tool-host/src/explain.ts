import type { ToolManifest } from './contract.ts';
import type { HostSettings } from './protocol.ts';
import type { EndedWhy, ThreadEnd } from './settle.ts';
import { describeError } from './text.ts';

/** The words for what happened to a thread and to the calls it had; they end up in front of the model and in the log. */

export function outOfMemory(settings: HostSettings): string {
  return `out of memory (a thread has ${settings.thread_memory_mb} MB)`;
}

/** Why we stop a thread. */
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
      return 'something that an ended call left running kept it from going on';
    case 'crash':
      return 'it crashed';
  }
}

/** How a thread ended by itself, from what its pool reports. */
export function describeCrash(error: unknown, settings: HostSettings): string {
  // A tool may throw anything, null included.
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') return outOfMemory(settings);
  const exit = /^worker exited with code: (-?\d+)$/.exec(String(message));
  if (exit !== null) return `process.exit(${exit[1]})`;
  return `uncaught ${describeError(error)}`;
}

/** How a thread ended, without the words of an error: they may be anybody's data. */
export function withoutWords(detail: string): string {
  return detail.startsWith('uncaught ') ? 'uncaught error' : detail;
}

/** The error text of a call whose caller gave up while it waited for a thread. */
export function explainGivenUp(enteredBefore: boolean): string {
  return enteredBefore
    ? 'AbortError: the caller gave up'
    : 'AbortError: the caller gave up before the call started';
}

/** The error text of a call whose tool no thread can run; `reason` says what importing its module came to. */
export function explainNotImported(toolName: string, reason: string): string {
  return `the module of ${toolName} could not be imported by a new thread (${reason})`;
}

/** The error text of a call that ended with its thread. */
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
