import {
  parseModelHandle,
  promptTokens,
  stepUuid,
  toWireId,
  type StepState,
  toUsd,
} from '@nightshift/agent-core';
import type { StepRow } from '@nightshift/db';
import type { StepResponse } from '../schemas/run.ts';

const STATUS: Readonly<Record<StepState, StepResponse['status']>> = {
  sealed: 'pending',
  answered: 'success',
  done: 'success',
  lost: 'failed',
  errored: 'failed',
  expired: 'failed',
  canceled: 'cancelled',
};

/** Converts the provider's reason to Letta's; null if there is none. */
function toStopReason(step: StepRow): StepResponse['stop_reason'] {
  if (step.state === 'canceled') return 'cancelled';
  if (step.stop_reason === 'max_tokens') return 'max_tokens_exceeded';
  if (STATUS[step.state] === 'failed') return 'llm_api_error';
  if (step.stop_reason === null || step.stop_reason === 'tool_use') return null;
  return step.stop_reason === 'end_turn' || step.stop_reason === 'stop_sequence' ? 'end_turn' : 'error';
}

/** Converts a stored step to an answer. */
export function toStepResponse(step: StepRow): StepResponse {
  const prompt_tokens = promptTokens(step);
  return {
    id: toWireId('step', stepUuid(step)),
    run_id: toWireId('run', step.run_id),
    agent_id: toWireId('agent', step.agent_id),
    status: STATUS[step.state],
    stop_reason: toStopReason(step),
    model: step.model,
    model_handle: step.model_handle,
    model_endpoint: null,
    provider_name: parseModelHandle(step.model_handle)?.provider ?? null,
    provider_category: 'base',
    provider_id: null,
    prompt_tokens,
    completion_tokens: step.output_tokens,
    total_tokens: prompt_tokens + step.output_tokens,
    context_window_limit: step.context_window_limit,
    error_type: typeof step.error?.type === 'string' ? step.error.type : null,
    error_data: step.error === null ? null : { ...step.error },
    number: step.number,
    attempt: step.attempt,
    is_summary: step.is_summary,
    strict_tools: step.is_summary ? [] : [...(step.strict?.tools ?? [])],
    strict_result: !step.is_summary && step.strict?.result_format === true,
    state: step.state,
    cost_usd: toUsd(step.cost_nanousd),
    created_at: step.sealed_at.toISOString(),
    completed_at: step.ended_at?.toISOString() ?? null,
    messages: [],
    tags: [],
    feedback: null,
    origin: null,
    tid: null,
    trace_id: null,
    project_id: null,
  };
}
