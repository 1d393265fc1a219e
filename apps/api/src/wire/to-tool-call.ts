import { stepUuid, toWireId } from '@nightshift/agent-core';
import type { RunToolCallRow } from '@nightshift/db';
import type { ToolCallResponse } from '../schemas/tool-call.ts';

/** Characters of a result in a list without whole results. */
const RESULT_CHARS_MAX = 2_000;

/** Converts a stored tool call to an answer; its result is cut unless `whole`. */
export function toToolCallResponse(runId: string, call: RunToolCallRow, whole: boolean): ToolCallResponse {
  const { step_number, result } = call;
  const stepId = toWireId(
    'step',
    stepUuid({ run_id: runId, number: step_number, attempt: call.step_attempt }),
  );
  return {
    id: `${stepId}:${call.call_index}`,
    tool_call_id: call.tool_use_id,
    step_id: stepId,
    step_number,
    name: call.tool_name,
    kind: call.kind,
    state: call.state,
    arguments: call.arguments,
    result: whole || result === null ? result : startOf(result),
    result_chars: result?.length ?? null,
    awaits: call.awaits,
    verdict: call.verdict,
    attempts: call.attempts,
    answer_bytes: call.answer_bytes,
    stdout: call.stdout,
    stderr: call.stderr,
    created_at: call.created_at.toISOString(),
    started_at: call.started_at?.toISOString() ?? null,
    ended_at: call.ended_at?.toISOString() ?? null,
    duration_ms: call.duration_ms,
  };
}

/** Cuts a text, but not within a character of two units. */
function startOf(text: string): string {
  const isSplit = /[\ud800-\udbff]/.test(text[RESULT_CHARS_MAX - 1] ?? '');
  return text.slice(0, isSplit ? RESULT_CHARS_MAX - 1 : RESULT_CHARS_MAX);
}
