import { RUN_STATES, STEP_STATES, STOP_REASONS } from '@nightshift/agent-core';
import { z } from 'zod';
import { durationNs } from './duration.ts';
import { shownId } from './ids.ts';
import { shownTime } from './moment.ts';
import { usage, usd } from './usage.ts';
import { RUN, RUN_USAGE, STEP } from './examples/batches.ts';

/** Letta's stop reasons, as in its client 1.6.4. */
export const LETTA_STOP_REASONS = [
  'end_turn',
  'error',
  'llm_api_error',
  'invalid_llm_response',
  'invalid_tool_call',
  'max_steps',
  'max_tokens_exceeded',
  'no_tool_call',
  'tool_rule',
  'cancelled',
  'requires_approval',
  'context_window_overflow_in_system_prompt',
] as const;

export const lettaStopReason = z.enum(LETTA_STOP_REASONS).meta({ id: 'LettaStopReason' });

export const RUN_STATUSES = ['created', 'running', 'completed', 'failed', 'cancelled'] as const;

/** The detailed state. */
export const runState = z.enum(RUN_STATES).meta({ id: 'RunState' });
/** The exact reason for the end of a run. */
export const endedReason = z.enum(STOP_REASONS).meta({ id: 'EndedReason' });

export const runError = z
  .looseObject({
    message: z.string(),
    type: z.string().optional().describe("The provider's name of the error."),
    last_error: z
      .looseObject({ type: z.string().optional(), message: z.string().optional() })
      .optional()
      .describe('The error of the last attempt.'),
  })
  .meta({ id: 'RunError' });

const lastError = z
  .object({
    type: z.string().describe("The provider's name of the error, or `expired`, `missing`, `unreadable`."),
    message: z.string().describe("The provider's words, at most 500 characters."),
  })
  .meta({ id: 'LastError' });

const runLimits = z
  .object({
    max_steps: z.int(),
    max_cost_usd: usd.nullable().describe('Null if none.'),
    max_output_tokens: z.int().nullable().describe('Null if none.'),
  })
  .meta({ id: 'RunLimits' });

const waitsFor = z
  .discriminatedUnion('type', [
    z
      .object({
        type: z.literal('run'),
        run_id: shownId('run').describe('The run that holds the conversation.'),
      })
      .meta({ id: 'WaitsForRun' }),
    z
      .object({
        type: z.literal('caller'),
        tool_calls: z.array(
          z
            .object({
              tool_call_id: z.string(),
              tool_name: z.string(),
              arguments: z.record(z.string(), z.unknown()),
              awaits: z
                .enum(['approval', 'answer'])
                .describe('`approval`: permission to make the call. `answer`: the result of a client tool.'),
            })
            .meta({ id: 'AwaitedToolCall' }),
        ),
      })
      .meta({ id: 'WaitsForCaller' }),
  ])
  .meta({ id: 'WaitsFor' });

/** A run on the wire: Letta's with additional fields. */
export const runResponse = z
  .object({
    id: shownId('run'),
    agent_id: shownId('agent'),
    status: z.enum(RUN_STATUSES),
    stop_reason: lettaStopReason
      .nullable()
      .describe("The nearest of Letta's reasons; see `ended_reason` for the exact reason."),
    created_at: shownTime,
    completed_at: shownTime.nullable(),
    background: z.boolean(),
    conversation_id: shownId('conversation'),
    batch_id: shownId('job').describe('Beyond Letta.'),
    ordinal: z.int().describe('Position in its batch, from 0. Beyond Letta.'),
    custom_id: z.string().nullable().describe("The caller's id of the request. Beyond Letta."),
    state: runState.describe('The detailed state. Beyond Letta.'),
    ended_reason: endedReason
      .nullable()
      .describe('The exact reason for the end; null until the run has ended. Beyond Letta.'),
    error: runError.nullable().describe('Error of a failed run. Beyond Letta.'),
    result: z
      .unknown()
      .describe('The JSON requested by `response_format` or the tool `finish`. Beyond Letta.'),
    usage: usage.describe('Beyond Letta.'),
    limits: runLimits.describe('Beyond Letta.'),
    deadline: shownTime.nullable().describe('Beyond Letta.'),
    waits_for: waitsFor
      .nullable()
      .describe(
        'The awaited run or calls, if the run is `queued` or in `requires_action`. Null otherwise, and briefly while its ' +
          'conversation is free. Beyond Letta.',
      ),
    step_number: z.int().describe('The present step, from 1. Beyond Letta.'),
    attempt: z.int().describe('The attempt at that step, from 1. Beyond Letta.'),
    attempts: z.int().describe('Attempts at that step so far, with the one under way. Beyond Letta.'),
    last_error: lastError
      .nullable()
      .describe('Error of the last attempt, while the step is tried again; null otherwise. Beyond Letta.'),
    next_attempt_at: shownTime
      .nullable()
      .describe(
        'When the next attempt is due; null without a failed attempt, or once it is at the provider. Beyond Letta.',
      ),
    started_at: shownTime.nullable().describe('Time at which it got its conversation. Beyond Letta.'),
    metadata: z.null().describe('Of Letta; always null.'),
    request_config: z.null(),
    callback_url: z.null(),
    callback_sent_at: z.null(),
    callback_status_code: z.null(),
    callback_error: z.null(),
    base_template_id: z.null(),
    ttft_ns: z.null(),
    total_duration_ns: durationNs.nullable(),
  })
  .meta({ id: 'Run', examples: [RUN] });
export type RunResponse = z.output<typeof runResponse>;

/** Tokens of a run. `prompt_tokens` includes tokens read from a cache. */
export const usageResponse = z
  .object({
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    prompt_tokens_details: z.object({
      cached_tokens: z.int().describe('Same as cache_read_tokens.'),
      cache_read_tokens: z.int(),
      cache_creation_tokens: z.int(),
      cache_write_tokens: z.int().describe('Same as cache_creation_tokens. Beyond Letta.'),
    }),
    completion_tokens_details: z.null(),
    step_count: z.int(),
    cost_usd: usd.nullable().describe('Exact decimal; null if a model has no price. Beyond Letta.'),
  })
  .meta({ id: 'RunUsage', examples: [RUN_USAGE] });

const stepError = z
  .looseObject({ type: z.string().optional(), message: z.string().optional() })
  .meta({ id: 'StepError' });

/** An attempt of a step on the wire. */
export const stepResponse = z
  .object({
    id: shownId('step'),
    run_id: shownId('run'),
    agent_id: shownId('agent'),
    status: z.enum(['pending', 'success', 'failed', 'cancelled']),
    stop_reason: lettaStopReason.nullable(),
    model: z.string().nullable(),
    model_handle: z.string(),
    model_endpoint: z.null(),
    provider_name: z.string().nullable(),
    provider_category: z.string(),
    provider_id: z.null(),
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    context_window_limit: z.int(),
    error_type: z.string().nullable(),
    error_data: stepError.nullable(),
    number: z.int().describe('Position in its run, from 1. Beyond Letta.'),
    attempt: z.int().describe('1, or more after a retry. Beyond Letta.'),
    is_summary: z
      .boolean()
      .describe(
        'True for a request for a summary of the conversation, which does not count towards max_steps. Beyond Letta.',
      ),
    strict_tools: z
      .array(z.string())
      .describe('Tools whose arguments the provider keeps to their schema. Beyond Letta.'),
    strict_result: z
      .boolean()
      .describe('True if the provider keeps the last answer to the schema of the result. Beyond Letta.'),
    state: z.enum(STEP_STATES).meta({ id: 'StepState' }).describe('The detailed state. Beyond Letta.'),
    cost_usd: usd.nullable().describe('Exact decimal; null if a model has no price. Beyond Letta.'),
    created_at: shownTime,
    completed_at: shownTime.nullable(),
    messages: z.array(z.never()).describe('Of Letta; always empty. See the messages of the run.'),
    tags: z.array(z.string()),
    feedback: z.null(),
    origin: z.null(),
    tid: z.null(),
    trace_id: z.null(),
    project_id: z.null(),
  })
  .meta({ id: 'Step', examples: [STEP] });
export type StepResponse = z.output<typeof stepResponse>;
