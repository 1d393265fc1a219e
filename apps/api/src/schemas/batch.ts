import { BATCH_STATES, CALLBACK_EVENTS, listOf, PILOT_STATES } from '@nightshift/agent-core';
import type { BatchRequest } from '@nightshift/intake';
import { z } from 'zod';
import { durationNs } from './duration.ts';
import { shownId, wireId } from './ids.ts';
import { shownTime } from './moment.ts';
import { FLEET_FIELDS, fleetFields, refineFleet } from './fleet.ts';
import {
  clientTools,
  content,
  conversation,
  customId,
  deadline,
  legacyFields,
  maxCostUsd,
  maxOutputTokens,
  maxSteps,
  messageInput,
  pilot,
  requestedServerTools,
  resultFormat,
  runCaps,
  runDeadline,
  someText,
  stopWhen,
  toolChoice,
  batchName,
  batchTags,
} from './run-options.ts';
import { progressResponse } from './progress.ts';
import { hasNoControls, hasNoCredentials } from './text.ts';
import { usage, usd } from './usage.ts';
import { BATCH } from './examples/batches.ts';
import { AGENT_ID } from './examples/ids.ts';

export const requestInput = z
  .strictObject({
    agent_id: wireId('agent'),
    messages: listOf(messageInput, 1_000).min(1, 'must not be empty').nullish(),
    input: content.nullish().describe('Short for one user message.'),
    max_steps: maxSteps,
    custom_id: customId
      .nullish()
      .describe("The caller's own id of this request, unique in the batch. Beyond Letta."),
    ...runCaps,
    conversation: conversation.describe(
      "agent (default): continues the agent's conversation. isolated: a new conversation of its own. Beyond Letta.",
    ),
    client_tools: clientTools,
    tools: toolChoice,
    server_tools: requestedServerTools,
    response_format: resultFormat,
    deadline: runDeadline,
    ...legacyFields,
  })
  .refine((request) => (request.messages == null) !== (request.input == null), {
    error: 'must have exactly one of messages and input',
  })
  .superRefine(({ messages }, context) => {
    if (messages?.at(-1)?.role !== 'assistant') return;
    const message = 'must not be assistant in the last message: the model answers user messages';
    context.addIssue({ code: 'custom', path: ['messages', messages.length - 1, 'role'], message });
  })
  .meta({
    id: 'BatchRequest',
    examples: [
      { agent_id: AGENT_ID, custom_id: 'ann', input: 'Read the notes of today and update your memory.' },
    ],
  });

const templateInput = z
  .strictObject({
    agent_id: wireId('agent'),
    input: someText.describe(
      'The user message as a Liquid template. A missing variable or an unknown filter is an error; structures print as ' +
        'JSON. Includes and filters that take an expression (such as `where_exp`) are unavailable; `where` and `find` ' +
        'match properties.',
    ),
    max_steps: maxSteps,
    ...runCaps,
    conversation: conversation.describe(
      "isolated (default): each run has its own conversation. agent: the runs take turns in the agent's conversation.",
    ),
    client_tools: clientTools,
    tools: toolChoice,
    server_tools: requestedServerTools,
    response_format: resultFormat,
    deadline: runDeadline,
  })
  .meta({ id: 'BatchTemplate' });

export const templateValues = z
  .strictObject({
    custom_id: customId.describe("The caller's own id of this input, unique in the batch."),
    variables: z.record(z.string(), z.unknown()).describe('Variables of the template.'),
  })
  .meta({
    id: 'TemplateVariables',
    examples: [{ custom_id: 'ticket-7', variables: { customer: 'Ann', text: 'My invoice is wrong.' } }],
  });

/** Refuses options without the options that they need. */
export function refineOptions(
  body: Readonly<Partial<Record<'callback_events' | 'callback_url' | 'hold_if' | 'apply', unknown>>>,
  refuse: (field: string, message: string) => void,
): void {
  if (Array.isArray(body.callback_events) && body.callback_events.length > 0 && body.callback_url == null)
    refuse('callback_events', 'needs callback_url: the events are sent there');
  if (body.hold_if != null && body.apply !== 'review') refuse('hold_if', 'needs apply: review');
}

export const batchInput = z
  .strictObject({
    requests: listOf(requestInput, 100_000).nullish().describe('One run per request.'),
    template: templateInput
      .nullish()
      .describe('An agent and a text for all `inputs`, instead of `requests`. Beyond Letta.'),
    inputs: listOf(templateValues, 100_000)
      .min(1, 'must not be empty')
      .nullish()
      .describe('Values for the template; one run per input. Beyond Letta.'),
    callback_url: z
      .url({ protocol: /^https?$/, error: 'must be an http(s) URL' })
      .max(2_000)
      .refine(hasNoControls, 'must not hold control characters')
      .refine(
        hasNoCredentials,
        'must not contain a name or password: check the signature of callbacks instead',
      )
      .nullish(),
    callback_events: z
      .array(z.enum(CALLBACK_EVENTS))
      .max(CALLBACK_EVENTS.length)
      .nullish()
      .describe(
        'Events that the callback reports beside the end: a run waits for its caller, the batch is paused, changes are held ' +
          'for review. Needs callback_url. Beyond Letta.',
      ),
    deadline: deadline.describe(
      'Latest deadline of all runs; each run shows its own in `deadline`, the batch does not. A past deadline is ' +
        'refused. Beyond Letta.',
    ),
    metadata: z
      .record(z.string(), z.unknown())
      .nullish()
      .describe('Free data of the caller; answered unchanged. Beyond Letta.'),
    apply: z
      .enum(['auto', 'review'])
      .nullish()
      .describe(
        'How memory writes of the runs apply. `auto` (default): at once. `review`: held per agent until accepted; later ' +
          'steps of the same agent in the batch see them. Beyond Letta.',
      ),
    max_cost_usd: maxCostUsd
      .nullish()
      .describe(
        'Most US dollars that all runs together may cost. Each step reserves its largest cost before it is sent; ' +
          'see `limits.overshoots`. At the cap the batch pauses until the cap is raised. Beyond Letta.',
      ),
    max_output_tokens: maxOutputTokens
      .nullish()
      .describe('Most tokens of all answers together; enforced like max_cost_usd. Beyond Letta.'),
    pilot: pilot
      .nullish()
      .describe(
        'Sends a sample of the runs first, alone. When they have ended, `pilot` of the batch has their cost, ends and ' +
          'errors, and the projected cost of all runs. Beyond Letta.',
      ),
    expires_in_days: z
      .int()
      .min(1)
      .max(3_650)
      .nullish()
      .describe(
        'Days after its end at which the batch is forgotten, as by DELETE. Default: RETENTION_DAYS of the workers, or never. ' +
          'Beyond Letta.',
      ),
    name: batchName.nullish(),
    tags: batchTags.nullish(),
    stop_when: stopWhen.nullish(),
    ...fleetFields,
    tools: toolChoice,
    server_tools: requestedServerTools,
  })
  .superRefine((body, context) => {
    const { requests, template, inputs, agents } = body;
    const refuse = (field: string, message: string): void =>
      context.addIssue({ code: 'custom', path: field.split('/'), message });
    refineOptions(body, refuse);
    if (agents != null) {
      refineFleet(body, refuse);
      return;
    }
    for (const field of [...FLEET_FIELDS, 'kind'] as const)
      if (body[field] != null) refuse(field, 'needs agents: only a fleet has it');
    if (requests == null && template == null)
      refuse('requests', 'is required, unless there is a template with inputs, or a selection of agents');
    if (requests != null && template != null)
      refuse('requests', 'cannot be combined with a template: send only one of the two');
    if ((template == null) !== (inputs == null))
      refuse('inputs', template == null ? 'needs a template' : 'is missing: the template needs inputs');
  })
  .meta({
    id: 'BatchCreate',
    examples: [
      {
        requests: [
          {
            agent_id: 'agent-0199d2a4-8f3e-7c1b-9a55-3d2f6b7c8e90',
            input: 'Read the notes of today and update your memory.',
          },
        ],
        callback_url: 'https://example.com/done',
      },
      {
        template: {
          agent_id: 'agent-0199d2a4-8f3e-7c1b-9a55-3d2f6b7c8e90',
          input: 'Which team should answer this ticket of {{ customer }}?\n\n{{ text }}',
        },
        inputs: [{ custom_id: 'ticket-7', variables: { customer: 'Ann', text: 'My invoice is wrong.' } }],
      },
    ],
  });
export type BatchInput = z.output<typeof batchInput>;

/** Converts a valid body to the request of the intake, which knows absent fields but no null. */
export function toBatchRequest(body: BatchInput): BatchRequest {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value != null));
}

/** New caps, name and tags of a batch. Null lifts a cap or removes a name; an absent field stays. */
export const capsInput = z
  .strictObject({
    max_cost_usd: maxCostUsd.nullish(),
    max_output_tokens: maxOutputTokens.nullish(),
    name: batchName.nullish(),
    tags: batchTags.nullish(),
  })
  .refine((caps) => Object.values(caps).some((cap) => cap !== undefined), {
    error: 'must name a cap, a name or tags',
  })
  .meta({ id: 'BatchCaps', examples: [{ max_cost_usd: 50, tags: ['night'] }] });

const batchCounts = z
  .object({
    total: z
      .int()
      .describe(
        'All runs. While the batch is `receiving`, an agent whose portion is not stored yet counts as one.',
      ),
    accepted: z.int().describe('Runs stored so far.'),
    skipped: z
      .record(z.string(), z.int())
      .describe('Agents without a run by reason, beside `total`; see GET /v1/batches/{job_id}/skipped.'),
    queued: z.int().describe('Runs that wait for the conversation that an earlier run holds.'),
    in_progress: z.int().describe("Runs that are ready, at the provider, or in workers' tool calls."),
    retrying: z
      .int()
      .describe('Runs in progress whose step has failed and is tried again; see `last_error` of the runs.'),
    requires_action: z.int().describe('Runs that wait for the caller.'),
    completed: z.int(),
    failed: z.int(),
    cancelled: z.int(),
    expired: z.int(),
  })
  .meta({ id: 'BatchCounts' });

const batchLimits = z
  .object({
    max_cost_usd: usd.nullable().describe('The cap; null if none.'),
    max_output_tokens: z.int().nullable().describe('The cap; null if none.'),
    reserved_usd: usd
      .nullable()
      .describe('Reserved for requests without an answer; null for a batch without caps.'),
    reserved_output_tokens: z.int().nullable(),
    overshoots: z
      .int()
      .nullable()
      .describe('Answers that cost more than was reserved for them, booked in full.'),
    cut_offs: z
      .int()
      .nullable()
      .describe('Answers cut off at a limit below `max_output_tokens`, which were asked for again in full.'),
  })
  .meta({ id: 'BatchLimits' });

const batchPilot = z
  .object({
    state: z
      .enum(PILOT_STATES)
      .describe(
        '`running`: its runs go alone. `waiting`: they have ended, and the batch waits for a resume. `passed`: the others ' +
          'go. `stopped`: failures or the projection paused the batch, or it ended before the others went.',
      ),
    runs: z.int().describe('Runs of the pilot: fewer than asked for if fewer could start.'),
    then: z.enum(['continue', 'pause']),
    failure_rate: z.number(),
    ended_at: shownTime.nullable(),
    result: z
      .object({
        completed: z.int(),
        failed: z.int().describe('Failed and expired runs.'),
        cancelled: z.int(),
        cost_usd: usd.nullable().describe('Null if a model has no price.'),
        output_tokens: z.int(),
        steps: z.object({ mean: z.number(), max: z.int() }).meta({ id: 'PilotSteps' }),
        stop_reasons: z.record(z.string(), z.int()).describe('Runs by stop reason.'),
        errors: z
          .array(z.object({ message: z.string(), runs: z.int() }).meta({ id: 'PilotError' }))
          .describe('The ten most frequent errors.'),
        projected_cost_usd: z
          .object({ low: usd.nullable(), expected: usd, high: usd.nullable() })
          .meta({ id: 'PilotCostProjection' })
          .nullable()
          .describe(
            'Cost of all runs of the batch, with an interval that holds it with a probability of 80 %, unless the pilot ' +
              'is a single run. Null if a model has no price.',
          ),
        projected_output_tokens: z
          .object({ low: z.int().nullable(), expected: z.int(), high: z.int().nullable() })
          .meta({ id: 'PilotTokenProjection' })
          .describe('Tokens of all answers of the batch.'),
      })
      .meta({ id: 'PilotResult' })
      .nullable()
      .describe('Null until all its runs have ended.'),
  })
  .meta({ id: 'BatchPilot' });

/** A batch on the wire: Letta's job with additional fields. */
export const batchResponse = z
  .object({
    id: shownId('job'),
    status: z.enum(['created', 'running', 'completed', 'failed', 'cancelled']),
    job_type: z.literal('batch'),
    created_at: shownTime,
    updated_at: shownTime,
    completed_at: shownTime
      .nullable()
      .describe(
        'Null until the status is final. For a cancelled batch with unfinished runs: time of the cancel request.',
      ),
    state: z.enum(BATCH_STATES).meta({ id: 'BatchState' }).describe('The detailed state. Beyond Letta.'),
    state_reason: z
      .string()
      .nullable()
      .describe(
        'Why the batch is paused, why its `stop_when` cancelled it, or why runs of it are tried again; null otherwise. Beyond Letta.',
      ),
    apply: z.enum(['auto', 'review']).describe('Beyond Letta.'),
    counts: batchCounts.describe('Runs by outcome. Beyond Letta.'),
    progress: progressResponse.nullable().describe('Null in lists: ask for the batch itself. Beyond Letta.'),
    usage: usage.describe('Beyond Letta.'),
    results_url: z
      .string()
      .describe('Path of the results; at any time, of the runs that have ended. Beyond Letta.'),
    limits: batchLimits.describe('Beyond Letta.'),
    expected_cost_usd: usd
      .nullable()
      .describe(
        'Estimated before the first request; null until then, and if a model has no price. Beyond Letta.',
      ),
    estimate_error: z
      .number()
      .nullable()
      .describe(
        'After the end of a completed batch: the share of its cost by which the estimate was above it; negative below it. ' +
          'Beyond Letta.',
      ),
    pilot: batchPilot.nullable().describe('Null for a batch without a pilot. Beyond Letta.'),
    schedule_id: shownId('schedule')
      .nullable()
      .describe('The schedule that submitted it; null for none, or a deleted one.'),
    tick_due_at: shownTime.nullable().describe('The tick of the schedule.'),
    expires_at: shownTime
      .nullable()
      .describe('When an ended batch with `expires_in_days` is forgotten. Beyond Letta.'),
    name: z.string().nullable().describe('Beyond Letta.'),
    tags: z.array(z.string()).describe('Beyond Letta.'),
    stop_when: z
      .object({
        first: z.int().nullable(),
        failure_rate: z.number().nullable(),
        after: z.int().nullable(),
      })
      .meta({ id: 'BatchStop' })
      .nullable()
      .describe('Failed runs at which the batch is cancelled; null for none. Beyond Letta.'),
    retry_of: shownId('job')
      .nullable()
      .describe('The batch whose runs it tries again; null for none. Beyond Letta.'),
    metadata: z.record(z.string(), z.unknown()).nullable().describe('As given by the caller; null if none.'),
    callback_url: z.string().nullable(),
    callback_events: z.array(z.enum(CALLBACK_EVENTS)).describe('Beyond Letta.'),
    callback_sent_at: shownTime.nullable(),
    callback_status_code: z.int().nullable(),
    callback_error: z.string().nullable(),
    background: z.boolean(),
    agent_id: z.null(),
    stop_reason: z.null(),
    ttft_ns: z.null(),
    total_duration_ns: durationNs.nullable(),
    created_by_id: shownId('user'),
    last_updated_by_id: shownId('user'),
    user_id: shownId('user'),
  })
  .meta({ id: 'Batch', examples: [BATCH] });
export type BatchResponse = z.output<typeof batchResponse>;
