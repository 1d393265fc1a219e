import { BATCH_STATES, listOf } from '@nightshift/agent-core';
import { MAX_STEPS_DEFAULT, type BatchRequest } from '@nightshift/intake';
import { z } from 'zod';
import { durationNs } from './duration.ts';
import { wireId } from './ids.ts';
import { ignored } from './ignored.ts';
import { moment } from './moment.ts';
import { sharedResponseFormat } from './response-format.ts';
import { hasNoControls, hasNoCredentials, storedName } from './text.ts';
import { usage, usd } from './usage.ts';

const MAX_STEPS_MAX = 1_000;
export const CONTENT_PARTS_MAX = 10_000;

/** A cap in US dollars. The minimum is the smallest stored amount. */
export const maxCostUsd = z.number().min(1e-9).max(1_000_000);
const maxOutputTokens = z.int().min(1).max(1_000_000_000_000);

/** Caps of one run. */
const runCaps = {
  max_cost_usd: maxCostUsd
    .nullish()
    .describe(
      'Most US dollars that the run may cost. Each step first reserves its worst case; without room the run ends as ' +
        '`budget_exceeded`. Beyond Letta.',
    ),
  max_output_tokens: maxOutputTokens
    .nullish()
    .describe('Most tokens of all answers of the run together; enforced like max_cost_usd. Beyond Letta.'),
};

/** Text with a visible character. */
export const someText = z.string().regex(/[^\s\p{Cc}]/u, 'must not be empty');

export const textPart = z
  .strictObject({ type: z.literal('text'), text: someText, signature: ignored })
  .meta({ id: 'TextPartCreate' });
const imagePart = z
  .strictObject({
    type: z.literal('image'),
    source: z.discriminatedUnion('type', [
      z.strictObject({
        type: z.literal('base64'),
        media_type: z.string().min(1),
        data: z.string().min(1),
        detail: ignored,
      }),
      z.strictObject({
        type: z.literal('url'),
        url: z.url({ protocol: /^https?$/, error: 'must be an http(s) URL' }),
      }),
    ]),
  })
  .meta({ id: 'ImagePartCreate' });
const contentPart = z.discriminatedUnion('type', [textPart, imagePart]);
const content = z.union([someText, listOf(contentPart, CONTENT_PARTS_MAX).min(1, 'must not be empty')]);

/** An input message. Fields unknown to Letta are refused. */
export const messageInput = z
  .strictObject({
    type: z
      .literal('message', 'must be message: send approvals to POST /v1/runs/<run_id>/tool-results')
      .nullish(),
    role: z
      .enum(['user', 'assistant', 'system'])
      .describe('The model sees a system message as a system alert in a user message.'),
    content,
    name: z.string().max(200).nullish(),
    otid: z.string().max(200).nullish().describe("The caller's own id of the message; stored."),
    batch_item_id: ignored,
    group_id: ignored,
    sender_id: ignored,
  })
  .meta({ id: 'MessageCreate' });

/** A tool that the caller executes, in the form of Letta's clients. */
const clientTool = z
  .strictObject({
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'may hold up to 64 letters, digits, _ and - only'),
    description: z.string().nullish(),
    parameters: z
      .record(z.string(), z.unknown())
      .nullish()
      .describe(
        'JSON Schema of an object; default: any object. A batch may have 1,000 different schemas with 2,000,000 ' +
          'characters in total, including its response formats.',
      ),
  })
  .meta({ id: 'ClientTool' });

/** Fields of Letta's requests that a batch ignores. */
const legacyFields = {
  include_return_message_types: listOf(z.string(), 100).nullish(),
  use_assistant_message: z.boolean().nullish(),
  assistant_message_tool_name: z.string().nullish(),
  assistant_message_tool_kwarg: z.string().nullish(),
  enable_thinking: z.union([z.string(), z.boolean()]).nullish(),
};

const maxSteps = z
  .int()
  .min(1)
  .max(MAX_STEPS_MAX)
  .nullish()
  .describe(`Most model requests of the run; default ${MAX_STEPS_DEFAULT}.`);
const customId = storedName(255);
const conversation = z.enum(['agent', 'isolated']).nullish();
const clientTools = listOf(clientTool, 100)
  .nullish()
  .describe(
    'Tools that the caller executes: a run that calls such a tool waits in requires_action for the result.',
  );
const resultFormat = sharedResponseFormat
  .nullish()
  .describe(
    "Format of the run's `result`: the JSON of its last answer, or of its call of the tool `finish` if the agent has it. " +
      "Overrides the agent's response_format, which is the default. Beyond Letta.",
  );
const deadline = moment.nullish();
const runDeadline = deadline.describe(
  'After this time the run sends no further step and fails with `deadline`. Steps at the provider are awaited. A past ' +
    'deadline is refused. Beyond Letta.',
);

const requestInput = z
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
  .meta({ id: 'BatchRequest' });

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
    response_format: resultFormat,
    deadline: runDeadline,
  })
  .meta({ id: 'BatchTemplate' });

const templateValues = z
  .strictObject({
    custom_id: customId.describe("The caller's own id of this input, unique in the batch."),
    variables: z.record(z.string(), z.unknown()).describe('Variables of the template.'),
  })
  .meta({ id: 'TemplateVariables' });

/** Name of a cursor or label. */
const cursorName = z
  .string()
  .regex(/^[a-zA-Z0-9_-]{1,64}$/, 'may hold up to 64 letters, digits, _ and - only');

const agentSelection = z
  .strictObject({
    ids: listOf(wireId('agent'), 100_000)
      .min(1, 'must not be empty')
      .nullish()
      .describe('These agents alone.'),
    tags: listOf(z.string(), 100).nullish().describe('Agents with any of these tags.'),
    match_all_tags: z.boolean().nullish().describe('Agents with all of the tags. Default: false.'),
    query_text: z.string().nullish().describe('Part of the name.'),
    min_new_messages: z
      .int()
      .min(1)
      .max(1_000_000)
      .nullish()
      .describe('Skips agents with fewer new messages under the cursor.'),
    limit: z.int().min(1).max(1_000_000).nullish().describe('Most agents, the oldest first.'),
  })
  .meta({ id: 'AgentSelection' })
  .describe('Selects agents that are not deleted and, without `ids`, not hidden. `{}` selects all.');

/** The fields of fleets and memory rewrites. */
const fleetFields = {
  kind: z
    .enum(['fleet', 'memory_rewrite'])
    .nullish()
    .describe(
      '`fleet` (default): one run per agent with `input`. `memory_rewrite`: agents rewrite `blocks`.',
    ),
  agents: agentSelection
    .nullish()
    .describe(
      'One run for each selected agent, instead of `requests`. The selection is made when the batch is stored.',
    ),
  input: someText
    .nullish()
    .describe(
      'The user message of each agent as a Liquid template over `agent.{id,name,description,tags,metadata}`, ' +
        '`blocks.<label>`, `last_run`, `tick.due_at`, and under a cursor `new_messages` (role, text, at, name) and ' +
        '`new_messages_text`.',
    ),
  cursor: cursorName
    .nullish()
    .describe(
      'Name of the cursor that says which messages of an agent are new. Default of a rewrite: memory_rewrite.',
    ),
  model: z.string().min(1).max(200).nullish().describe("Handle of the model, in place of the agents' own."),
  max_steps: maxSteps,
  conversation: conversation.describe(
    'isolated (default): each run has its own conversation. agent: the run continues that of its agent.',
  ),
  client_tools: clientTools,
  response_format: resultFormat,
  max_cost_usd_per_run: maxCostUsd.nullish().describe('Like max_cost_usd of a request.'),
  max_output_tokens_per_run: maxOutputTokens.nullish().describe('Like max_output_tokens of a request.'),
  allow_empty: z.boolean().nullish().describe('Accepts a selection without agents. Default: false.'),
  blocks: listOf(storedName(50), 50)
    .min(1, 'must not be empty')
    .nullish()
    .describe('Labels of the blocks that a rewrite may write; the others are shown.'),
  instruction: someText.nullish().describe("The caller's wishes for a rewrite."),
  prompt: someText.nullish().describe('Replaces the system prompt of a rewrite.'),
  create_blocks: z
    .boolean()
    .nullish()
    .describe('Creates missing blocks of a rewrite, empty. Default: false.'),
  parts_max: z
    .int()
    .min(1)
    .max(100)
    .nullish()
    .describe('Most runs per agent for new messages that exceed half the context window. Default: 8.'),
  hold_if: z
    .strictObject({ shrinks_by: z.number().gt(0).lt(1) })
    .nullish()
    .describe(
      'Under `apply: review`: at the end all changes are accepted, except those of agents of whom a block lost more than ' +
        'this part of its characters.',
    ),
};

/** Fields that only a memory rewrite has, and fields that it does not have. */
const OF_REWRITE = ['blocks', 'instruction', 'prompt', 'create_blocks', 'parts_max'] as const;
const NOT_OF_REWRITE = ['input', 'conversation', 'client_tools', 'response_format'] as const;

const FLEET_FIELDS = (Object.keys(fleetFields) as (keyof typeof fleetFields)[]).filter(
  (name) => name !== 'agents' && name !== 'kind' && name !== 'hold_if',
);

type FleetBody = z.output<z.ZodObject<typeof fleetFields>> &
  Readonly<Partial<Record<'requests' | 'template' | 'inputs', unknown>>>;

/** Refuses fields that do not fit a fleet, or its kind. */
function refineFleet(body: FleetBody, refuse: (field: string, message: string) => void): void {
  for (const field of ['requests', 'template', 'inputs'] as const)
    if (body[field] != null) refuse(field, 'cannot be combined with agents: send only one of the two');
  const isRewrite = body.kind === 'memory_rewrite';
  for (const field of isRewrite ? NOT_OF_REWRITE : OF_REWRITE)
    if (body[field] != null)
      refuse(field, isRewrite ? 'is not for a memory_rewrite' : 'needs kind: memory_rewrite');
  if (!isRewrite && body.input == null) refuse('input', 'is required: the message to each agent');
  if (isRewrite && body.blocks == null) refuse('blocks', 'is required: the labels to rewrite');
  if (body.cursor != null && body.conversation === 'agent')
    refuse(
      'conversation',
      'must be isolated under a cursor, or the runs would read their own messages as new',
    );
  if (body.cursor == null && !isRewrite && body.agents?.min_new_messages != null)
    refuse('agents/min_new_messages', 'needs a cursor');
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
        'Most US dollars that all runs together may cost. Each step reserves its worst case before it is sent, so the ' +
          'cap is never exceeded; at the cap the batch pauses until the cap is raised. Beyond Letta.',
      ),
    max_output_tokens: maxOutputTokens
      .nullish()
      .describe('Most tokens of all answers together; enforced like max_cost_usd. Beyond Letta.'),
    ...fleetFields,
  })
  .superRefine((body, context) => {
    const { requests, template, inputs, agents } = body;
    const refuse = (field: string, message: string): void =>
      context.addIssue({ code: 'custom', path: field.split('/'), message });
    if (body.hold_if != null && body.apply !== 'review') refuse('hold_if', 'needs apply: review');
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

/** New caps of a batch. Null lifts a cap; an absent cap stays. */
export const capsInput = z
  .strictObject({
    max_cost_usd: maxCostUsd.nullish(),
    max_output_tokens: maxOutputTokens.nullish(),
  })
  .refine((caps) => Object.values(caps).some((cap) => cap !== undefined), {
    error: 'must name a cap',
  })
  .meta({ id: 'BatchCaps' });

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
  })
  .meta({ id: 'BatchLimits' });

/** A batch on the wire: Letta's job with additional fields. */
export const batchResponse = z
  .object({
    id: z.string(),
    status: z.enum(['created', 'running', 'completed', 'failed', 'cancelled']),
    job_type: z.literal('batch'),
    created_at: z.string(),
    updated_at: z.string(),
    completed_at: z
      .string()
      .nullable()
      .describe(
        'Null until the status is final. For a cancelled batch with unfinished runs: time of the cancel request.',
      ),
    state: z.enum(BATCH_STATES).meta({ id: 'BatchState' }).describe('The detailed state. Beyond Letta.'),
    state_reason: z.string().nullable().describe('Why a batch is paused. Beyond Letta.'),
    apply: z.enum(['auto', 'review']).describe('Beyond Letta.'),
    counts: batchCounts.describe('Runs by outcome. Beyond Letta.'),
    usage: usage.describe('Beyond Letta.'),
    limits: batchLimits.describe('Beyond Letta.'),
    schedule_id: z
      .string()
      .nullable()
      .describe('The schedule that submitted it; null for none, or a deleted one.'),
    tick_due_at: z.string().nullable().describe('The tick of the schedule.'),
    metadata: z.record(z.string(), z.unknown()).nullable().describe('As given by the caller; null if none.'),
    callback_url: z.string().nullable(),
    callback_sent_at: z.string().nullable(),
    callback_status_code: z.int().nullable(),
    callback_error: z.string().nullable(),
    background: z.boolean(),
    agent_id: z.null(),
    stop_reason: z.null(),
    ttft_ns: z.null(),
    total_duration_ns: durationNs.nullable(),
    created_by_id: z.string(),
    last_updated_by_id: z.string(),
    user_id: z.string(),
  })
  .meta({ id: 'Batch' });
export type BatchResponse = z.output<typeof batchResponse>;
