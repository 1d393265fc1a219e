import type { ToolCallOutcome, ToolCallRequest, ToolManifest, ToolModuleProblem } from './contract.ts';

/** Thrown by {@link ToolHost.runCalls} of a closed tool host. */
export class ToolHostClosedError extends Error {
  override readonly name = 'ToolHostClosedError';
  constructor() {
    super('the tool host is closed; start another one to run tools');
  }
}

/** Thrown if the tool host's process does not start; the message gives its reason. Never caused by a tool. */
export class ToolHostUnavailableError extends Error {
  override readonly name = 'ToolHostUnavailableError';
  /** Outcomes so far of `runCalls`, in the given order; calls that never began are `crashed` and not started. */
  readonly outcomes: readonly ToolCallOutcome[];
  constructor(message: string, outcomes: readonly ToolCallOutcome[] = []) {
    super(message);
    this.outcomes = outcomes;
  }
}

/** The worker's handle of its tool host. */
export interface ToolHost {
  /** Returns the usable tools, sorted by name. */
  listTools(): readonly ToolManifest[];
  /** Returns the unusable modules and folders, with reasons. */
  listProblems(): readonly ToolModuleProblem[];
  /**
   * Runs a call and resolves with its outcome. Never rejects.
   * - A call that fails, hangs or ends its thread costs others only time. Exception: `once` calls of its tool that run in its
   *   thread end as `crashed`. For a while, calls of such a tool then get a thread each.
   * - A timeout runs from the start of a call. A call that times out while its thread computes is repeated alone, unless it
   *   is `once`: its neighbours may have used its time.
   * - When the process dies, running calls are repeated once in the next, each alone on its thread; `once` calls end as
   *   `crashed`. Waiting calls run there as usual. If no host can be started, the outcome is `crashed` and `unavailable`.
   * - When `signal` fires, the call ends as `crashed` within two seconds.
   */
  runCall(call: ToolCallRequest, options?: { readonly signal?: AbortSignal }): Promise<ToolCallOutcome>;
  /**
   * Runs the calls like {@link ToolHost.runCall} and resolves with one outcome per call, in the given order.
   * Throws: {@link ToolHostClosedError} after `close`, {@link ToolHostUnavailableError} if no host can be started.
   */
  runCalls(
    calls: readonly ToolCallRequest[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<ToolCallOutcome[]>;
  /** Ends the process; outstanding calls end as `crashed` and `unavailable`. Resolves when it is gone. Idempotent. */
  close(): Promise<void>;
  /** Returns the host's current process id, if any. */
  pid(): number | undefined;
}
