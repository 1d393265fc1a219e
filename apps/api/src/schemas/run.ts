import { z } from 'zod';
import { durationNs } from './duration.ts';

/** Letta's stop reasons, as its client 1.6.4 knows them. */
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

export const RUN_STATUSES = ['created', 'running', 'completed', 'failed', 'cancelled'] as const;

const record = z.record(z.string(), z.unknown());

/** A run on the wire. */
export const runResponse = z
  .object({
    id: z.string(),
    agent_id: z.string(),
    status: z.enum(RUN_STATUSES),
    stop_reason: z.enum(LETTA_STOP_REASONS).nullable(),
    created_at: z.string(),
    completed_at: z.string().nullable(),
    background: z.boolean(),
    conversation_id: z.string(),
    metadata: record.describe(
      'Batch, place in it, custom_id, true state and stop reason, error, result; in `awaits` the calls that await the caller; ' +
        'in `waits_for_run_id` the run that holds the conversation of one that is `queued`, null for others. Beyond Letta.',
    ),
    request_config: z.null(),
    callback_url: z.null(),
    callback_sent_at: z.null(),
    callback_status_code: z.null(),
    callback_error: z.null(),
    base_template_id: z.null(),
    ttft_ns: z.null(),
    total_duration_ns: durationNs.nullable(),
  })
  .meta({ id: 'Run' });
export type RunResponse = z.output<typeof runResponse>;

/** Tokens of a run. `prompt_tokens` are all that were read, from a cache or not. */
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
    cost_usd: z.string().nullable().describe('Exact decimal; null where a model has no price. Beyond Letta.'),
  })
  .meta({ id: 'RunUsage' });

/** One attempt of a step on the wire. */
export const stepResponse = z
  .object({
    id: z.string(),
    run_id: z.string(),
    agent_id: z.string(),
    status: z.enum(['pending', 'success', 'failed', 'cancelled']),
    stop_reason: z.enum(LETTA_STOP_REASONS).nullable(),
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
    error_data: record.nullable(),
    number: z.int().describe('Place in its run, from 1. Beyond Letta.'),
    attempt: z.int().describe('1, or more after a retry. Beyond Letta.'),
    is_summary: z
      .boolean()
      .describe('It asked for a summary of the conversation; it counts towards no max_steps. Beyond Letta.'),
    state: z.string().describe('The state behind the status. Beyond Letta.'),
    cost_usd: z.string().nullable().describe('Exact decimal; null where a model has no price. Beyond Letta.'),
    created_at: z.string(),
    completed_at: z.string().nullable(),
    messages: z.array(z.unknown()),
    tags: z.array(z.string()),
    feedback: z.null(),
    origin: z.null(),
    tid: z.null(),
    trace_id: z.null(),
    project_id: z.null(),
  })
  .meta({ id: 'Step' });
export type StepResponse = z.output<typeof stepResponse>;
