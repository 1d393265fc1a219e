import {
  isError,
  type JsonObject,
  type SideEffects,
  type ToolKind,
  type ToolSource,
} from '@nightshift/agent-core';
import type { CallOutput } from '@nightshift/db';
import type { CallPool, Places } from './places.ts';
import { createPoolRests, type PoolRests } from './pool-rests.ts';

/** A call for a runner. Its tool sees ids as on the wire. */
export interface ToolRequest {
  /** The name of the call, the same on every attempt. */
  readonly call_id: string;
  readonly kind: ToolKind;
  readonly tool_name: string;
  readonly arguments: JsonObject;
  readonly agent_id: string;
  readonly run_id: string;
  readonly tool_use_id: string;
  readonly idempotency_key: string;
  readonly side_effects: SideEffects;
  readonly timeout_ms: number;
  readonly result_char_limit: number;
  /** Null for tools without a program of their own. */
  readonly source: ToolSource | null;
}

export interface ToolReply extends CallOutput {
  readonly call_id: string;
  /** `crashed`: the process or thread of the call ended, or the caller gave up. */
  readonly status: 'succeeded' | 'failed' | 'timed_out' | 'crashed';
  readonly result: string;
  readonly duration_ms: number;
  /** False only if the tool was certainly not entered. */
  readonly started: boolean;
  /** The host of the runner is away: the call is left to a later attempt. */
  readonly unavailable?: true;
}

/** Carries out the calls of one kind of tools. */
export interface ToolRunner {
  /** Returns the pool in which the calls of a tool take places. */
  poolOf(toolName: string): CallPool;
  /**
   * Makes one call under its own deadline. A fault of the tool is a reply. The signal ends the call early.
   * Throws: the call could not be prepared.
   */
  run(request: ToolRequest, options: { readonly signal: AbortSignal }): Promise<ToolReply>;
}

/** The runners of a worker, and the places of their calls. */
export interface ToolRunners {
  readonly places: Places;
  readonly rests: PoolRests;
  poolOf(kind: ToolKind | 'rejected', toolName: string): CallPool;
  /** As {@link ToolRunner.run}, but never rejects. A kind without a runner here has a failed reply. */
  run(request: ToolRequest, options: { readonly signal: AbortSignal }): Promise<ToolReply>;
}

/** The pool of the kinds that this worker cannot run: their calls fail at once. */
const NO_RUNNER: CallPool = { name: 'no runner', calls_max: 1_000, reserve: 0 };

/** Joins runners to one. */
export function createToolRunners(
  runners: Readonly<Partial<Record<ToolKind, ToolRunner>>>,
  places: Places,
): ToolRunners {
  return {
    places,
    rests: createPoolRests(),
    poolOf: (kind, toolName) =>
      (kind === 'rejected' ? undefined : runners[kind])?.poolOf(toolName) ?? NO_RUNNER,
    async run(request, options) {
      const runner = runners[request.kind];
      if (runner === undefined)
        return failed(request, `This worker runs no tools of the kind '${request.kind}'.`);
      try {
        return await runner.run(request, options);
      } catch (error) {
        return notPrepared(request, error);
      }
    },
  };
}

/** Returns the reply of a call that was refused before its tool was entered. */
export function failed({ call_id }: Pick<ToolRequest, 'call_id'>, result: string): ToolReply {
  return { call_id, status: 'failed', result, duration_ms: 0, started: false };
}

/**
 * Returns the reply of a call that could not be prepared. Without its host or the database it is made later; a secret that
 * cannot be read is told to the model, because a repeat would not help.
 */
function notPrepared(request: Pick<ToolRequest, 'call_id'>, error: unknown): ToolReply {
  const told = error instanceof Error ? error.message : 'The call could not be prepared.';
  if (isError(error, 'secrets_key_missing') || isError(error, 'secret_damaged')) return failed(request, told);
  const { call_id } = request;
  return { call_id, status: 'crashed', result: told, duration_ms: 0, started: false, unavailable: true };
}
