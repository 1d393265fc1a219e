import type { ToolContext } from './contract.ts';
import type { CallFrame } from './protocol.ts';
import type { TaskTool } from './task.ts';
import type { OutputSource } from './thread-output.ts';

/** A call whose function was entered. */
export interface LiveCall extends OutputSource {
  readonly index: number;
  readonly slot: number;
  readonly frame: CallFrame;
  readonly tool: TaskTool;
  readonly startedMs: number;
  busyMs: number;
  /** What its thread had been busy by the time it yielded first. */
  threadBusyMs: number;
  /** Made when the tool first asks for its signal: most never do. */
  controller: AbortController | undefined;
  /** Why the signal fired, or shall fire as soon as it is asked for. */
  abortReason: Error | undefined;
  ended: boolean;
}

/** What the tool is told about its call. */
export function contextOf(call: LiveCall): ToolContext {
  return {
    get signal() {
      call.controller ??= new AbortController();
      if (call.abortReason !== undefined) call.controller.abort(call.abortReason);
      return call.controller.signal;
    },
    agentId: call.frame.agent_id,
    runId: call.frame.run_id,
    toolUseId: call.frame.tool_use_id,
    idempotencyKey: call.frame.idempotency_key,
  };
}
