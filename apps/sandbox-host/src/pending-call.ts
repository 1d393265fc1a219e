import {
  OUTPUT_CHARS_MAX,
  RESULT_CHAR_LIMIT_MAX,
  TIMEOUT_MS_MAX,
  type SandboxOutcome,
  type SandboxReply,
  type SandboxRequest,
} from './contract.ts';
import type { FetchBudget } from './fetches.ts';
import type { ToHost } from './frames.ts';

/** A call that has not ended. */
export interface PendingCall {
  readonly id: number;
  readonly request: SandboxRequest;
  readonly argumentsText: string;
  readonly fetches: FetchBudget;
  /** Fires at the end of the call. */
  readonly ended: AbortController;
  readonly resolve: (reply: SandboxReply) => void;
  /** Processes that have received the call: its code may have been entered in each. */
  sends: number;
}

export function createPendingCall(
  id: number,
  request: SandboxRequest,
  argumentsText: string,
  resolve: (reply: SandboxReply) => void,
): PendingCall {
  const fetches = { requests: 0, chars: 0 };
  return { id, request, argumentsText, fetches, ended: new AbortController(), resolve, sends: 0 };
}

/** Ends a call. A second end is ignored. */
export function endCall(call: PendingCall, outcome: SandboxOutcome, isUnavailable = false): void {
  call.ended.abort();
  const reply = { call_id: call.request.call_id, ...outcome, started: call.sends > 0 };
  call.resolve(isUnavailable ? { ...reply, unavailable: true } : reply);
}

export function failure(status: 'failed' | 'crashed', message: string): SandboxOutcome {
  const result = message.slice(0, OUTPUT_CHARS_MAX);
  return { status, result, duration_ms: 0, truncated: false, stdout: '', stderr: '' };
}

/** Returns the frame of a call: the host process learns nothing else of its request. */
export function toFrame({ id, request, argumentsText }: PendingCall): ToHost {
  const { tool_name, code, parameters, timeout_ms, now_ms, idempotency_key, network, env } = request;
  const call = {
    tool_name,
    code,
    parameters,
    timeout_ms,
    now_ms,
    idempotency_key,
    network,
    ...(env === undefined ? {} : { env }),
  };
  const { result_char_limit } = request;
  return {
    kind: 'call',
    id,
    call: result_char_limit === undefined ? call : { ...call, result_char_limit },
    arguments: argumentsText,
  };
}

/** Returns the arguments of a request as JSON text, or its fault. */
export function readArguments(
  request: SandboxRequest,
): { readonly text: string } | { readonly problem: string } {
  const { timeout_ms, result_char_limit = 1 } = request;
  if (!isWithin(timeout_ms, TIMEOUT_MS_MAX)) return { problem: `timeout_ms must be 1 to ${TIMEOUT_MS_MAX}` };
  if (!isWithin(result_char_limit, RESULT_CHAR_LIMIT_MAX))
    return { problem: `result_char_limit must be 1 to ${RESULT_CHAR_LIMIT_MAX}` };
  try {
    return { text: JSON.stringify(request.arguments) };
  } catch (error) {
    return { problem: `the arguments are not JSON: ${String(error)}` };
  }
}

function isWithin(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= max;
}
