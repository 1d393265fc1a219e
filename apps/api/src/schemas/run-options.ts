import {
  listOf,
  PILOT_FAILURE_RATE_DEFAULT,
  PILOT_RUNS_DEFAULT,
  SEARCHES_ASSUMED,
  SERVER_TOOLS_MAX,
  serverToolIssues,
  STOP_AFTER_DEFAULT,
  type JsonObject,
  type ServerTool,
} from '@nightshift/agent-core';
import { MAX_STEPS_DEFAULT } from '@nightshift/intake';
import { z } from 'zod';
import { ignored } from './ignored.ts';
import { moment } from './moment.ts';
import { sharedResponseFormat } from './response-format.ts';
import { storedName, trimmedName } from './text.ts';

const MAX_STEPS_MAX = 1_000;
export const CONTENT_PARTS_MAX = 10_000;
const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const TOOL_NAME_RULE = 'may hold up to 64 letters, digits, _ and - only';
const PILOT_RUNS_MAX = 1_000;

/** A cap in US dollars. The minimum is the smallest stored amount. */
export const maxCostUsd = z.number().min(1e-9).max(1_000_000);
export const maxOutputTokens = z.int().min(1).max(1_000_000_000_000);

/** Caps of one run. */
export const runCaps = {
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
export const content = z.union([
  someText,
  listOf(contentPart, CONTENT_PARTS_MAX).min(1, 'must not be empty'),
]);

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
    name: z.string().regex(TOOL_NAME, TOOL_NAME_RULE),
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
export const legacyFields = {
  include_return_message_types: listOf(z.string(), 100).nullish(),
  use_assistant_message: z.boolean().nullish(),
  assistant_message_tool_name: z.string().nullish(),
  assistant_message_tool_kwarg: z.string().nullish(),
  enable_thinking: z.union([z.string(), z.boolean()]).nullish(),
};

export const maxSteps = z
  .int()
  .min(1)
  .max(MAX_STEPS_MAX)
  .nullish()
  .describe(`Most model requests of the run; default ${MAX_STEPS_DEFAULT}.`);
export const customId = storedName(255);
export const conversation = z.enum(['agent', 'isolated']).nullish();
export const clientTools = listOf(clientTool, 100)
  .nullish()
  .describe(
    'Tools that the caller executes: a run that calls such a tool waits in requires_action for the result.',
  );
/** Names of stored tools that a request adds, takes away or keeps. */
const toolNames = listOf(z.string().regex(TOOL_NAME, TOOL_NAME_RULE), 500).refine(
  (names) => new Set(names).size === names.length,
  'must not name a tool twice',
);
export const toolChoice = z
  .strictObject({
    add: toolNames.nullish().describe("Tools beyond the agent's own, appended in this order."),
    remove: toolNames.nullish().describe("The agent's tools to take away."),
    only: toolNames
      .min(1, 'must not be empty: to have no tools, name them all in remove')
      .nullish()
      .describe("Keeps only these of the agent's tools and of `add`."),
  })
  .superRefine(({ add, remove, only }, context) => {
    const refuse = (path: (string | number)[], message: string): void =>
      context.addIssue({ code: 'custom', path, message });
    if (add == null && remove == null && only == null) refuse([], 'must have add, remove or only');
    for (const [list, names] of Object.entries({ add: new Set(add), only: new Set(only) }))
      for (const [index, name] of (remove ?? []).entries())
        if (names.has(name)) refuse(['remove', index], `is in ${list} too: name the tool in one of them`);
  })
  .meta({ id: 'ToolChoice', examples: [{ add: ['search_orders'], remove: ['memory_insert'] }] })
  .nullish()
  .describe(
    "Names of stored tools that change the agents' tools for these runs alone. A choice of a request or template " +
      'replaces the choice of the batch. Tool rules that no longer fit are refused. Beyond Letta.',
  );
/** Server tools of the provider. Members beyond these are sent as they come. */
export const serverTools = z
  .array(
    z
      .looseObject({
        type: z.string().describe('Family and date, such as `web_search_20260318`.'),
        name: z.string().describe('The name of its family.'),
        max_uses: z
          .int()
          .nullish()
          .describe(`Most uses in a request. Without it, budgets count with ${SEARCHES_ASSUMED} searches.`),
      })
      .meta({ id: 'ServerTool' }),
  )
  .max(SERVER_TOOLS_MAX)
  .superRefine((tools, context) => {
    for (const { path, message } of serverToolIssues(tools as readonly JsonObject[]))
      context.addIssue({ code: 'custom', path: path.split('/').slice(1), message });
  })
  .meta({
    examples: [[{ type: 'web_search_20260318', name: 'web_search', max_uses: 5 }]],
  }) as unknown as z.ZodType<readonly ServerTool[]>;
export const requestedServerTools = serverTools
  .nullish()
  .describe(
    "Tools of the provider, sent unchanged behind the other tools, in place of the agent's. `[]`: none. Tool rules cannot " +
      'name them. Beyond Letta.',
  );
export const resultFormat = sharedResponseFormat
  .nullish()
  .describe(
    "Format of the run's `result`: the JSON of its last answer, or of its call of the tool `finish` if the agent has it. " +
      "Overrides the agent's response_format, which is the default. Beyond Letta.",
  );
/** A sample of a batch's runs that goes first. */
export const pilot = z
  .strictObject({
    runs: z
      .int()
      .min(1)
      .max(PILOT_RUNS_MAX)
      .nullish()
      .describe(`Runs that go first, spread over the inputs. Default: ${PILOT_RUNS_DEFAULT}.`),
    then: z
      .enum(['continue', 'pause'])
      .describe(
        '`pause`: the batch waits for a resume. `continue`: it goes on, unless too many runs failed or the projection ' +
          'exceeds a cap of the batch.',
      ),
    failure_rate: z
      .number()
      .min(0)
      .max(1)
      .nullish()
      .describe(
        `Share of failed runs above which \`continue\` pauses too. Default: ${PILOT_FAILURE_RATE_DEFAULT}.`,
      ),
  })
  .meta({ id: 'PilotCreate' });

/** Failed runs at which a batch is cancelled. */
export const stopWhen = z
  .strictObject({
    first: z.int().min(1).max(1_000_000_000).nullish().describe('Number of failed runs.'),
    failure_rate: z
      .number()
      .gt(0)
      .max(1)
      .nullish()
      .describe('Share of failed runs among the ended ones, from `after` ended runs on.'),
    after: z.int().min(1).max(1_000_000_000).nullish().describe(`Default: ${STOP_AFTER_DEFAULT}.`),
  })
  .superRefine(({ first, failure_rate, after }, context) => {
    if (first == null && failure_rate == null)
      context.addIssue({ code: 'custom', message: 'must have first or failure_rate' });
    if (after != null && failure_rate == null)
      context.addIssue({ code: 'custom', path: ['after'], message: 'needs failure_rate' });
  })
  .meta({ id: 'StopCreate' })
  .describe(
    'Cancels the batch once so many runs failed or expired; `state_reason` says so. Paid answers are stored, and the ' +
      'cancelled runs can be tried again. Beyond Letta.',
  );
export const batchName = trimmedName(200).describe('A name for lists. Beyond Letta.');
export const batchTags = listOf(storedName(100), 50)
  .overwrite((tags) => [...new Set(tags)])
  .describe('Tags for lists. Beyond Letta.');
export const deadline = moment.nullish();
export const runDeadline = deadline.describe(
  'After this time the run sends no further step and fails with `deadline`. Steps at the provider are awaited. A past ' +
    'deadline is refused. Beyond Letta.',
);
