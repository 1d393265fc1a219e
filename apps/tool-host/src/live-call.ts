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
  /** Busy time of its thread when it first yielded. */
  threadBusyMs: number;
  /** Created when the tool first reads its signal: most tools never do. */
  controller: AbortController | undefined;
  /** The reason of the signal, or of the signal to come once it is read. */
  abortReason: Error | undefined;
  ended: boolean;
}

/** Creates the context of a call for its tool. */
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
