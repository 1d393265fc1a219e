import {
  RUN_STATES,
  STOP_REASONS,
  toWireId,
  type PlannedCall,
  type RunState,
  type StopReason,
  toUsd,
} from '@nightshift/agent-core';
import type { RunRow, Usage } from '@nightshift/db';
import type { LETTA_STOP_REASONS, RunResponse } from '../schemas/run.ts';
import { toUsage } from './to-usage.ts';

type LettaStopReason = (typeof LETTA_STOP_REASONS)[number];

const STATUS: Readonly<Record<RunState, RunResponse['status']>> = {
  queued: 'created',
  ready: 'created',
  in_flight: 'running',
  acting: 'running',
  requires_action: 'running',
  completed: 'completed',
  failed: 'failed',
  cancelled: 'cancelled',
  expired: 'failed',
};

/** The nearest of Letta's reasons; clients switch over Letta's reasons only. */
const STOP_REASON: Readonly<Record<StopReason, LettaStopReason>> = {
  end_turn: 'end_turn',
  tool_rule: 'tool_rule',
  max_steps: 'max_steps',
  max_tokens: 'max_tokens_exceeded',
  stop_sequence: 'end_turn',
  refusal: 'error',
  budget_exceeded: 'error',
  loop_detected: 'error',
  context_overflow: 'llm_api_error',
  no_valid_tools: 'error',
  invalid_request: 'llm_api_error',
  provider_error: 'llm_api_error',
  unusable_answer: 'invalid_llm_response',
  expired: 'llm_api_error',
  cancelled: 'cancelled',
  deadline: 'error',
  poison: 'error',
};

/** Returns the states that Letta shows with these statuses. */
export function statesOf(statuses: readonly string[]): readonly RunState[] {
  return RUN_STATES.filter((state) => statuses.includes(STATUS[state]));
}

/**
 * Returns the stop reasons that Letta shows with this reason. Letta's overflow of the system prompt finds runs whose
 * conversation overflowed.
 */
export function stopReasonsOf(reason: string): readonly StopReason[] {
  if (reason === 'context_window_overflow_in_system_prompt') return ['context_overflow'];
  return STOP_REASONS.filter((own) => STOP_REASON[own] === reason);
}

/** Converts a stop reason to Letta's. */
export function toStopReason(reason: StopReason): LettaStopReason {
  return STOP_REASON[reason];
}

/** Returns the run or the caller's answers that block the run; null if nothing does. */
function toWaitsFor(run: RunRow, open: readonly PlannedCall[]): RunResponse['waits_for'] {
  if (run.waits_for_run_id !== null) return { type: 'run', run_id: toWireId('run', run.waits_for_run_id) };
  const tool_calls = open.flatMap(({ tool_use_id, tool_name, args, awaits }) =>
    awaits === null ? [] : [{ tool_call_id: tool_use_id, tool_name, arguments: args, awaits }],
  );
  return tool_calls.length === 0 ? null : { type: 'caller', tool_calls };
}

/** Converts a run's error to an answer. */
export function toError({ error }: Pick<RunRow, 'error'>): RunResponse['error'] {
  if (error === null) return null;
  return { ...error, message: typeof error['message'] === 'string' ? error['message'] : '' };
}

/** Returns what a run says about the failures of its present step, until the step succeeds or the run ends. */
function toRetry(run: RunRow): Pick<RunResponse, 'attempts' | 'last_error' | 'next_attempt_at'> {
  const attempts = run.state === 'ready' || run.state === 'queued' ? run.attempt - 1 : run.attempt;
  if (run.ended_at !== null || run.failing_since === null)
    return { attempts, last_error: null, next_attempt_at: null };
  return {
    attempts,
    last_error: run.last_error,
    next_attempt_at: run.state === 'ready' ? (run.next_attempt_at?.toISOString() ?? null) : null,
  };
}

/** Converts a stored run to an answer, with its usage and open calls. */
export function toRunResponse(run: RunRow, used: Usage, open: readonly PlannedCall[]): RunResponse {
  return {
    id: toWireId('run', run.id),
    agent_id: toWireId('agent', run.agent_id),
    status: STATUS[run.state],
    stop_reason: run.stop_reason === null ? null : toStopReason(run.stop_reason),
    created_at: run.created_at.toISOString(),
    completed_at: run.ended_at?.toISOString() ?? null,
    background: true,
    conversation_id: toWireId('conversation', run.conversation_id),
    batch_id: toWireId('job', run.batch_id),
    ordinal: run.ordinal,
    custom_id: run.custom_id,
    state: run.state,
    ended_reason: run.stop_reason,
    error: toError(run),
    result: run.result,
    usage: toUsage(used),
    limits: {
      max_steps: run.max_steps,
      max_cost_usd: toUsd(run.max_cost_nanousd),
      max_output_tokens: run.max_output_tokens,
    },
    deadline: run.deadline_at?.toISOString() ?? null,
    waits_for: toWaitsFor(run, open),
    step_number: run.step_number,
    attempt: run.attempt,
    ...toRetry(run),
    started_at: run.started_at?.toISOString() ?? null,
    metadata: null,
    request_config: null,
    callback_url: null,
    callback_sent_at: null,
    callback_status_code: null,
    callback_error: null,
    base_template_id: null,
    ttft_ns: null,
    total_duration_ns:
      run.ended_at === null ? null : (run.ended_at.getTime() - run.created_at.getTime()) * 1_000_000,
  };
}
