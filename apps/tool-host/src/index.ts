/**
 * Runs module tools, the operator's own code, in threads of a child process.
 *
 * worker ── client ══ frames over pipes ══ host ── scheduler ── sessions ── Piscina threads ── tool modules
 *
 * The child has no key, no database and no lease. Each call ends in exactly one outcome. A thread that hangs, exits or
 * fills its memory is ended, and its other calls go on elsewhere; a dead process is restarted. Tools are trusted code: they
 * run as the worker's user, and this is no sandbox.
 */
export type { LogSource } from '@nightshift/host-process';
export { startToolHost, type ToolHost } from './client.ts';
export {
  TOOL_THREAD_MEMORY_MB_DEFAULT,
  TOOL_THREAD_MEMORY_MB_MAX,
  TOOL_THREAD_MEMORY_MB_MIN,
  TOOL_THREADS_MAX,
  type ToolHostOptions,
} from './options.ts';
export {
  RESULT_CHAR_LIMIT_MAX,
  TIMEOUT_MS_MAX,
  TOOL_NAME_PATTERN,
  CONCURRENCY_MAX,
  type SideEffects,
  type Speed,
  type ToolCallOutcome,
  type ToolCallRequest,
  type ToolCallStatus,
  type ToolContext,
  type ToolManifest,
  type ToolModule,
  type ToolModuleProblem,
} from './contract.ts';
