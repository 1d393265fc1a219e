import { z } from 'zod';

/** Inputs that several tools share. */
export const batchId = z.string().describe('Id of the batch, job-…');
export const runId = z.string().describe('Id of the run, run-…');
export const agentId = z.string().describe('Id of the agent, agent-…');
export const blockId = z.string().describe('Id of the memory block, block-…; show_memory lists them');
export const scheduleId = z.string().describe('Id of the schedule, schedule-…');

export const paging = {
  limit: z.int().min(1).max(100).default(20).describe('Most items'),
  after: z.string().exactOptional().describe('Cursor of the page before, from its after'),
};

const RUN_STATES = [
  ...(['queued', 'ready', 'in_flight', 'acting', 'requires_action'] as const),
  ...(['completed', 'failed', 'cancelled', 'expired'] as const),
] as const;

export const runState = z.enum(RUN_STATES).exactOptional();

/** Filters of held changes. */
export const heldChoice = {
  label: z.string().exactOptional().describe('Label of the block'),
  shrunk: z.boolean().exactOptional().describe('true: only changes that removed most of a text'),
  stale: z.boolean().exactOptional().describe('true: only changes whose block has changed since'),
  run_state: runState,
  q: z.string().exactOptional().describe("Text in the label, the agent's name or the new text"),
  change_group: z.string().exactOptional().describe('Only changes equal to each other'),
};

export const maxChars = z
  .int()
  .min(100)
  .max(40_000)
  .default(2_000)
  .describe('Longest text of an item in characters; longer ones are cut');

const request = z.looseObject({
  agent_id: z.string().describe('Id of the agent, agent-…'),
  input: z.string().exactOptional().describe('The user message'),
  custom_id: z.string().exactOptional().describe('Your name for the run, unique in the batch'),
  conversation: z
    .enum(['agent', 'isolated'])
    .exactOptional()
    .describe('agent (default): continues the conversation of the agent. isolated: starts a new one'),
  max_steps: z.int().exactOptional().describe('Most model requests of the run; default 10'),
});

const template = z.looseObject({
  agent_id: z.string(),
  input: z.string().describe('Liquid template, such as: Which team answers {{ text }}?'),
});

const selection = z
  .looseObject({
    ids: z.array(z.string()).exactOptional(),
    tags: z.array(z.string()).exactOptional().describe('Agents with any of these tags'),
    query_text: z.string().exactOptional().describe('Part of the name'),
    limit: z.int().exactOptional(),
  })
  .describe('Selected agents; {} selects all');

/** The body of a batch; the API checks it. */
export const batchBody = z
  .looseObject({
    requests: z.array(request).exactOptional().describe('One run per request'),
    template: template.exactOptional().describe('One agent and one text for all inputs'),
    inputs: z
      .array(
        z.looseObject({
          custom_id: z.string().exactOptional(),
          variables: z.record(z.string(), z.unknown()),
        }),
      )
      .exactOptional()
      .describe('Values for the template, one run each'),
    agents: selection.exactOptional(),
    input: z.string().exactOptional().describe('Message of each selected agent, as a Liquid template'),
    kind: z
      .enum(['fleet', 'memory_rewrite'])
      .exactOptional()
      .describe('memory_rewrite: selected agents rewrite their blocks'),
    blocks: z
      .array(z.string())
      .exactOptional()
      .describe('Labels of the blocks that a memory_rewrite may write'),
    instruction: z.string().exactOptional().describe('Wishes for a memory_rewrite'),
    apply: z
      .enum(['auto', 'review'])
      .exactOptional()
      .describe('review: memory changes are held until accepted. auto (default): they apply at once'),
    max_cost_usd: z.number().exactOptional().describe('Most US dollars of the batch; it pauses at the cap'),
    deadline: z.iso.datetime({ offset: true }).exactOptional(),
    name: z.string().exactOptional(),
    tags: z.array(z.string()).exactOptional(),
    metadata: z.record(z.string(), z.unknown()).exactOptional(),
  })
  .describe(
    'Body of a batch: requests, or template with inputs, or selected agents with an input. Further fields are those of POST /v1/batches',
  );
