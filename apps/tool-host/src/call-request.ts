import { RESULT_CHAR_LIMIT_MAX, TIMEOUT_MS_MAX, type ToolCallRequest } from './contract.ts';
import { FRAME_BYTES_MAX } from './frames.ts';
import type { CallEntry, CallFrame } from './protocol.ts';
import { describeError } from './text.ts';

/** Space in a frame for the JSON around a call. */
const FRAME_RESERVE_BYTES = 4_096;

/** The {@link CallEntry} of a call as JSON with its bytes, or an error that names the wrong field. */
export type EncodedCall = { readonly entry: string; readonly bytes: number } | { readonly error: string };

/** Checks a request and writes it as JSON under the number `id`. Never throws. */
export function encodeCall(id: number, request: ToolCallRequest): EncodedCall {
  const args = request.arguments;
  if (typeof args !== 'object' || args === null || Array.isArray(args)) {
    return { error: 'arguments must be a JSON object' };
  }
  const timeout = refuseOutside('timeout_ms', request.timeout_ms, TIMEOUT_MS_MAX);
  if (timeout !== undefined) return { error: timeout };
  const limit = refuseOutside('result_char_limit', request.result_char_limit, RESULT_CHAR_LIMIT_MAX);
  if (limit !== undefined) return { error: limit };

  let json: string;
  try {
    json = JSON.stringify({
      arguments: args as Record<string, unknown>,
      id,
      tool_name: request.tool_name,
      agent_id: request.agent_id,
      run_id: request.run_id,
      tool_use_id: request.tool_use_id,
      idempotency_key: request.idempotency_key,
      timeout_ms: request.timeout_ms,
      result_char_limit: request.result_char_limit,
    } satisfies Record<keyof CallFrame, unknown>);
  } catch (error) {
    return { error: `arguments cannot be written as JSON (${describeError(error)})` };
  }
  // An object may become another value, or none, by its toJSON.
  if (!json.startsWith('{"arguments":{')) return { error: 'arguments must be a JSON object' };

  const entry = JSON.stringify([id, request.tool_name, request.timeout_ms ?? 0, json] satisfies CallEntry);
  const bytes = Buffer.byteLength(entry);
  if (bytes > FRAME_BYTES_MAX - FRAME_RESERVE_BYTES) {
    return { error: `arguments are too large: the call takes ${bytes} bytes, the cap is ${FRAME_BYTES_MAX}` };
  }
  return { entry, bytes };
}

function refuseOutside(field: string, value: number | undefined, max: number): string | undefined {
  if (value === undefined || (Number.isInteger(value) && value >= 1 && value <= max)) return undefined;
  return `${field} must be a whole number from 1 to ${max}`;
}
