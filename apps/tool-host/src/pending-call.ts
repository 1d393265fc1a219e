import {
  ERROR_CHARS_MAX,
  type ToolCallOutcome,
  type ToolCallRequest,
  type ToolCallStatus,
} from './contract.ts';
import type { OutcomeFrame } from './protocol.ts';
import { cutText } from './text.ts';

/** A call of the client without an outcome. */
export interface PendingCall {
  readonly id: number;
  readonly request: ToolCallRequest;
  readonly entry: string;
  readonly bytes: number;
  readonly resolve: (outcome: ToolCallOutcome) => void;
  starting: boolean;
  resends: number;
  /** A host ended while the call may have been running. */
  interrupted: boolean;
  cancelled: boolean;
}

/** Builds the outcome of a call. Field by field: this runs for every call, and a spread costs ten times as much. */
export function outcomeOf({ request }: PendingCall, frame: OutcomeFrame): ToolCallOutcome {
  const { status, result, truncated, duration_ms, started, error } = frame;
  const outcome = { call_id: request.call_id, status, result, truncated, duration_ms, started };
  return error === undefined ? outcome : { ...outcome, error };
}

/** Ends a call whose host is gone or does not answer. `unavailable`: no host can be started. */
export function crash(
  { request, resolve }: PendingCall,
  started: boolean,
  error: string,
  unavailable = false,
): void {
  const outcome = endedOutcome(request, 'crashed', started, cutText(error, ERROR_CHARS_MAX));
  resolve(unavailable ? { ...outcome, unavailable: true } : outcome);
}

/** Builds the outcome of a call that has no answer of the host. */
export function endedOutcome(
  { call_id }: ToolCallRequest,
  status: ToolCallStatus,
  started: boolean,
  error: string,
): ToolCallOutcome {
  return { call_id, status, result: error, truncated: false, duration_ms: 0, started, error };
}
