import { RESULT_CHAR_LIMIT_MAX, TIMEOUT_MS_MAX, type ToolCallRequest } from './contract.ts';
import type { CallFrame, WireCall } from './protocol.ts';
import { describeError } from './text.ts';

/** The {@link WireCall} of a call as JSON, or an error that names the wrong field. */
export type EncodedCall = { readonly json: string } | { readonly error: string };

/** Checks a request and writes it as JSON. Never throws. */
export function encodeCall(request: ToolCallRequest): EncodedCall {
  const { tool_name, timeout_ms, result_char_limit, arguments: args } = request;
  const error =
    refuseOutside('timeout_ms', timeout_ms, TIMEOUT_MS_MAX) ??
    refuseOutside('result_char_limit', result_char_limit, RESULT_CHAR_LIMIT_MAX);
  if (error !== undefined) return { error };
  let frame: string;
  try {
    frame = JSON.stringify({
      arguments: args as Record<string, unknown>,
      agent_id: request.agent_id,
      run_id: request.run_id,
      tool_use_id: request.tool_use_id,
      idempotency_key: request.idempotency_key,
      timeout_ms,
      result_char_limit,
    } satisfies Record<Exclude<keyof CallFrame, 'id'>, unknown>);
  } catch (cause) {
    return { error: `arguments cannot be written as JSON (${describeError(cause)})` };
  }
  // An object may become another value, or none, by its toJSON.
  if (!frame.startsWith('{"arguments":{')) return { error: 'arguments must be a JSON object' };
  return { json: JSON.stringify({ tool_name, timeout_ms: timeout_ms ?? 0, frame } satisfies WireCall) };
}

function refuseOutside(field: string, value: number | undefined, max: number): string | undefined {
  if (value === undefined || (Number.isInteger(value) && value >= 1 && value <= max)) return undefined;
  return `${field} must be a whole number from 1 to ${max}`;
}
