import type { CallEnd } from '@nightshift/host-process';
import {
  OUTPUT_CHARS_MAX,
  RESULT_CHAR_LIMIT_MAX,
  TIMEOUT_MS_MAX,
  type SandboxCall,
  type SandboxReply,
  type SandboxRequest,
} from './contract.ts';
import type { FetchBudget } from './fetches.ts';
import type { WireCall } from './messages.ts';

/** A call that has not ended. */
export interface PendingCall {
  readonly request: SandboxRequest;
  readonly fetches: FetchBudget;
  /** Fires at the end of the call. */
  readonly ended: AbortController;
}

/** Builds the reply of a call that the host process did not end. */
export function endedReply(
  { call_id }: SandboxRequest,
  { status, reason, started, unavailable }: CallEnd,
): SandboxReply {
  const result = reason.slice(0, OUTPUT_CHARS_MAX);
  const reply = {
    call_id,
    status,
    result,
    duration_ms: 0,
    truncated: false,
    stdout: '',
    stderr: '',
    started,
  };
  return unavailable ? { ...reply, unavailable } : reply;
}

/** Returns the JSON of a call: the host process learns nothing else of its request. Throws: Error that names the fault. */
export function encodeCall(request: SandboxRequest): string {
  const { timeout_ms, result_char_limit } = request;
  if (!isWithin(timeout_ms, TIMEOUT_MS_MAX)) throw new Error(`timeout_ms must be 1 to ${TIMEOUT_MS_MAX}`);
  if (!isWithin(result_char_limit ?? 1, RESULT_CHAR_LIMIT_MAX))
    throw new Error(`result_char_limit must be 1 to ${RESULT_CHAR_LIMIT_MAX}`);
  const { tool_name, code, parameters, now_ms, idempotency_key, network, env } = request;
  // JSON leaves undefined fields out.
  const call = {
    tool_name,
    code,
    parameters,
    timeout_ms,
    now_ms,
    idempotency_key,
    network,
    env,
    result_char_limit,
  };
  return JSON.stringify({
    call: call as SandboxCall,
    arguments: readArguments(request),
  } satisfies WireCall);
}

function readArguments(request: SandboxRequest): string {
  try {
    return JSON.stringify(request.arguments);
  } catch (error) {
    throw new Error(`the arguments are not JSON: ${String(error)}`, { cause: error });
  }
}

function isWithin(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= max;
}
