import { listOf } from '@nightshift/agent-core';
import { PARTS_MAX_DEFAULT, REWRITE_CURSOR_DEFAULT } from '@nightshift/intake';
import { z } from 'zod';
import { label } from './block.ts';
import { cursorName } from './cursor.ts';
import { wireId } from './ids.ts';
import {
  clientTools,
  conversation,
  maxCostUsd,
  maxOutputTokens,
  maxSteps,
  resultFormat,
  someText,
} from './run-options.ts';

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
export const fleetFields = {
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
      `Name of the cursor that says which messages of an agent are new. Default of a rewrite: ${REWRITE_CURSOR_DEFAULT}; ` +
        'rewrites of different blocks need cursors of their own.',
    ),
  model: z.string().min(1).max(200).nullish().describe("Handle of the model, in place of the agents' own."),
  max_steps: maxSteps,
  conversation: conversation.describe(
    "isolated (default): each run has its own conversation. agent: the run continues its agent's conversation.",
  ),
  client_tools: clientTools,
  response_format: resultFormat,
  max_cost_usd_per_run: maxCostUsd.nullish().describe('Like max_cost_usd of a request.'),
  max_output_tokens_per_run: maxOutputTokens.nullish().describe('Like max_output_tokens of a request.'),
  allow_empty: z.boolean().nullish().describe('Accepts a selection without agents. Default: false.'),
  blocks: listOf(label, 50)
    .min(1, 'must not be empty')
    .refine((labels) => new Set(labels).size === labels.length, 'must not name a label twice')
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
    .describe(
      `Most runs per agent for new messages that exceed half the context window. Default: ${PARTS_MAX_DEFAULT}.`,
    ),
  hold_if: z
    .strictObject({ shrinks_by: z.number().gt(0).lt(1) })
    .meta({ id: 'HoldRule' })
    .nullish()
    .describe(
      'Under `apply: review`: accepts all changes at the end, except for agents with a block that shrank by more than ' +
        'this share of its characters, for example 0.6.',
    ),
};

/** Fields that only a memory rewrite has, and fields that it does not have. */
const OF_REWRITE = ['blocks', 'instruction', 'prompt', 'create_blocks', 'parts_max'] as const;
const NOT_OF_REWRITE = [
  'input',
  'conversation',
  'client_tools',
  'tools',
  'server_tools',
  'response_format',
] as const;

export const FLEET_FIELDS = (Object.keys(fleetFields) as (keyof typeof fleetFields)[]).filter(
  (name) => name !== 'agents' && name !== 'kind' && name !== 'hold_if',
);

type FleetBody = z.output<z.ZodObject<typeof fleetFields>> &
  Readonly<Partial<Record<'requests' | 'template' | 'inputs' | 'tools' | 'server_tools', unknown>>>;

/** Refuses fields that do not fit a fleet, or its kind. */
export function refineFleet(body: FleetBody, refuse: (field: string, message: string) => void): void {
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
