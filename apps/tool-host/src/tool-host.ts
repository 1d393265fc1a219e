import type { ToolCallOutcome, ToolCallRequest, ToolManifest, ToolModuleProblem } from './contract.ts';

/** Thrown by the calls of a tool host that was closed. */
export class ToolHostClosedError extends Error {
  override readonly name = 'ToolHostClosedError';
  constructor() {
    super('the tool host is closed; start another one to run tools');
  }
}

/** Thrown when the tool host's process does not come up. Tool faults never cause it; the message says what the process said. */
export class ToolHostUnavailableError extends Error {
  override readonly name = 'ToolHostUnavailableError';
  /** Of `runCalls`: what the calls came to before, in the order given; those that never began are `crashed` and not started. */
  readonly outcomes: readonly ToolCallOutcome[];
  constructor(message: string, outcomes: readonly ToolCallOutcome[] = []) {
    super(message);
    this.outcomes = outcomes;
  }
}

/** The worker's hold on its tool host. */
export interface ToolHost {
  /** The usable tools, sorted by name. */
  listTools(): readonly ToolManifest[];
  /** The modules and folders that could not be used, with reasons. */
  listProblems(): readonly ToolModuleProblem[];
  /**
   * Runs the calls and resolves with one outcome per call, in the order given, whatever the tools do.
   * Calls are grouped and run side by side; a call that fails, hangs or ends its thread costs the others nothing but time,
   * except those of its tool that may run only once and are under way in its thread: they end as `crashed`. From then on
   * calls of such a tool have a thread each, for a while.
   * A call's deadline runs from its start, not from when it was asked for. One that passes it while its thread computes is made
   * again by itself, unless it may run only once: its time may have gone to its neighbours.
   * Calls under way when the host's process dies run once more in the next one, each alone on its thread, or end as `crashed`
   * where they may run only once; those not yet started run there as they would have.
   * When `signal` fires, calls without an outcome end as `crashed` within two seconds.
   * Rejects with {@link ToolHostClosedError} after `close`, with {@link ToolHostUnavailableError} when no host can be started.
   */
  runCalls(
    calls: readonly ToolCallRequest[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<ToolCallOutcome[]>;
  /** Ends the process; outstanding calls reject with {@link ToolHostClosedError}. Resolves when it is gone. Idempotent. */
  close(): Promise<void>;
  /** The process id of the host at present, if there is one. */
  pid(): number | undefined;
}
