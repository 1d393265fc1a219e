import { BATCH_STATES, listOf } from '@nightshift/agent-core';
import { MAX_STEPS_DEFAULT } from '@nightshift/intake';
import { z } from 'zod';
import { durationNs } from './duration.ts';
import { wireId } from './ids.ts';
import { ignored } from './ignored.ts';
import { moment } from './moment.ts';
import { sharedResponseFormat } from './response-format.ts';
import { hasNoControls, hasNoCredentials, storedName } from './text.ts';
import { usage, usd } from './usage.ts';

const MAX_STEPS_MAX = 1_000;
const CONTENT_PARTS_MAX = 10_000;

/** A cap in US dollars; a hundred millionth of a cent is the least that can be told from nothing. */
const maxCostUsd = z.number().min(1e-9).max(1_000_000);
const maxOutputTokens = z.int().min(1).max(1_000_000_000_000);

/** Caps of one run. */
const runCaps = {
  max_cost_usd: maxCostUsd
    .nullish()
    .describe(
      'What the run may cost at most, in US dollars. Before each step its worst case is held; a run without room for ' +
        'it ends as `budget_exceeded`. Beyond Letta.',
    ),
  max_output_tokens: maxOutputTokens
    .nullish()
    .describe(
      'Tokens that the answers of the run may have, all together; kept like max_cost_usd. Beyond Letta.',
    ),
};

/** Text with a visible character. */
const someText = z.string().regex(/[^\s\p{Cc}]/u, 'must not be empty');

const textPart = z
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

/** One input message. Fields that Letta does not know either are refused. */
const messageInput = z
  .strictObject({
    type: z.literal('message', 'must be message: approvals are answered elsewhere than in a batch').nullish(),
    role: z
      .enum(['user', 'assistant', 'system'])
      .describe('A system message is shown to the model as a system alert of the user.'),
    content,
    name: z.string().max(200).nullish(),
    otid: z.string().max(200).nullish().describe("The caller's own id of the message; kept."),
    batch_item_id: ignored,
    group_id: ignored,
    sender_id: ignored,
  })
  .meta({ id: 'MessageCreate' });

/** A tool that the caller carries out, as Letta's clients name one. */
const clientTool = z
  .strictObject({
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'may hold up to 64 letters, digits, _ and - only'),
    description: z.string().nullish(),
    parameters: z
      .record(z.string(), z.unknown())
      .nullish()
      .describe(
        'JSON Schema of an object; default: any object. A batch may have 1,000 different ones, of 2,000,000 characters ' +
          'together, those of its response formats among them.',
      ),
  })
  .meta({ id: 'ClientTool' });

/** Letta's request fields that a batch has no use for. */
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
  .describe(`Model requests that the run may make; default ${MAX_STEPS_DEFAULT}.`);
const customId = storedName(255);
const conversation = z.enum(['agent', 'isolated']).nullish();
const clientTools = listOf(clientTool, 100)
  .nullish()
  .describe(
    'Tools that the caller carries out: a run that calls one waits in requires_action for the result.',
  );
const resultFormat = sharedResponseFormat
  .nullish()
  .describe(
    'What the result of the run must look like: the JSON of its last answer, or what it hands to the tool `finish` if ' +
      "the agent has that. It is the `result` of the run. Default: the agent's own, which this goes before. Beyond Letta.",
  );
const deadline = moment.nullish();
const runDeadline = deadline.describe(
  'From then on the run takes no further step, and fails for `deadline`. Steps at the provider are awaited. Refused once it ' +
    'has passed. Beyond Letta.',
);

const requestInput = z
  .strictObject({
    agent_id: wireId('agent'),
    messages: listOf(messageInput, 1_000).min(1, 'must not be empty').nullish(),
    input: content.nullish().describe('Short for one user message.'),
    max_steps: maxSteps,
    custom_id: customId
      .nullish()
      .describe("The caller's own name for this request, unique in the batch. Beyond Letta."),
    ...runCaps,
    conversation: conversation.describe(
      "Whether it goes on in the agent's conversation (default) or in a new one of its own. Beyond Letta.",
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
    const message =
      'must not be assistant in the last message: the model answers a user, it goes on with no answer';
    context.addIssue({ code: 'custom', path: ['messages', messages.length - 1, 'role'], message });
  })
  .meta({ id: 'BatchRequest' });

const templateInput = z
  .strictObject({
    agent_id: wireId('agent'),
    input: someText.describe(
      'The user message as a Liquid template. A variable that an input does not give, or an unknown filter, is an error; ' +
        'structures print as JSON; there are no other templates to include, and no filters that take an expression ' +
        '(`where_exp` and its like: `where` and `find` look at properties).',
    ),
    max_steps: maxSteps,
    ...runCaps,
    conversation: conversation.describe(
      "Whether each run has a conversation of its own (isolated, the default) or they take turns in the agent's.",
    ),
    client_tools: clientTools,
    response_format: resultFormat,
    deadline: runDeadline,
  })
  .meta({ id: 'BatchTemplate' });

const templateValues = z
  .strictObject({
    custom_id: customId.describe("The caller's own name for this input, unique in the batch."),
    variables: z.record(z.string(), z.unknown()).describe('What the template is filled in with.'),
  })
  .meta({ id: 'TemplateVariables' });

export const batchInput = z
  .strictObject({
    requests: listOf(requestInput, 100_000).nullish().describe('One run each.'),
    template: templateInput
      .nullish()
      .describe('One agent and one text for all of `inputs`, in place of `requests`. Beyond Letta.'),
    inputs: listOf(templateValues, 100_000)
      .min(1, 'must not be empty')
      .nullish()
      .describe('Values for the template; one run each. Beyond Letta.'),
    callback_url: z
      .url({ protocol: /^https?$/, error: 'must be an http(s) URL' })
      .max(2_000)
      .refine(hasNoControls, 'must not hold control characters')
      .refine(hasNoCredentials, 'must not hold a name or password: check the signature of callbacks instead')
      .nullish(),
    deadline: deadline.describe(
      'The latest deadline of any of its runs, each of which tells its own in `deadline`; the answer of the batch has ' +
        'none. Refused once it has passed. Beyond Letta.',
    ),
    metadata: z
      .record(z.string(), z.unknown())
      .nullish()
      .describe('Anything of the caller; answered as it was given. Beyond Letta.'),
    apply: z
      .enum(['auto', 'review'])
      .nullish()
      .describe(
        'What becomes of what the runs write to memory: `auto` (default), it is in force at once; `review`, it is held ' +
          'for each agent, whose later steps in the batch see it, until it is accepted. Beyond Letta.',
      ),
    max_cost_usd: maxCostUsd
      .nullish()
      .describe(
        'What all runs together may cost at most, in US dollars. The worst case of each step is held before it is sent, so ' +
          'the cap is never exceeded; at the cap the batch is paused until it is raised. Beyond Letta.',
      ),
    max_output_tokens: maxOutputTokens
      .nullish()
      .describe('Tokens that all answers together may have; kept like max_cost_usd. Beyond Letta.'),
  })
  .superRefine(({ requests, template, inputs }, context) => {
    const refuse = (field: string, message: string): void =>
      context.addIssue({ code: 'custom', path: [field], message });
    if (requests == null && template == null)
      refuse('requests', 'must be there, or a template with its inputs in its place');
    if (requests != null && template != null)
      refuse('requests', 'come beside a template: send one of the two');
    if ((template == null) !== (inputs == null))
      refuse(
        'inputs',
        template == null ? 'needs a template' : 'is missing: the template has nothing to fill in',
      );
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

/** New caps of a batch: null lifts one, absent keeps it. */
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
    total: z.int().describe('All runs; the sum of the other counts.'),
    queued: z.int().describe('Runs that wait for the conversation that an earlier run holds.'),
    in_progress: z.int().describe('Runs that are ready, at the provider, or in tool calls of workers.'),
    requires_action: z.int().describe('Runs that wait for the caller.'),
    completed: z.int(),
    failed: z.int(),
    cancelled: z.int(),
    expired: z.int(),
  })
  .meta({ id: 'BatchCounts' });

const batchLimits = z
  .object({
    max_cost_usd: usd.nullable().describe('The cap; null without.'),
    max_output_tokens: z.int().nullable().describe('The cap; null without.'),
    reserved_usd: usd
      .nullable()
      .describe('Held for requests without an answer; null for a batch without caps.'),
    reserved_output_tokens: z.int().nullable(),
  })
  .meta({ id: 'BatchLimits' });

/** A batch on the wire: Letta's job, with fields of our own beside it. */
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
        'Null until the status is final. While a cancelled batch ends its runs: when the cancel was requested.',
      ),
    state: z
      .enum(BATCH_STATES)
      .meta({ id: 'BatchState' })
      .describe('The state behind the status. Beyond Letta.'),
    state_reason: z.string().nullable().describe('Why a batch is paused. Beyond Letta.'),
    apply: z.enum(['auto', 'review']).describe('Beyond Letta.'),
    counts: batchCounts.describe('Runs by what has become of them. Beyond Letta.'),
    usage: usage.describe('Beyond Letta.'),
    limits: batchLimits.describe('Beyond Letta.'),
    metadata: z.record(z.string(), z.unknown()).nullable().describe('As the caller gave it; null without.'),
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
