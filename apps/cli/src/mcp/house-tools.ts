import { z } from 'zod';
import { pageOf } from './bounds.ts';
import { agentId, batchId, blockId, heldChoice, maxChars, paging, scheduleId } from './inputs.ts';
import { counted, pick, readingTool, type ReadingTool } from './tool.ts';

const listAgents = readingTool({
  name: 'list_agents',
  description: 'Lists agents, latest first, with their model and tags.',
  input: z.object({
    query_text: z.string().exactOptional().describe('Part of the name'),
    tags: z.array(z.string()).exactOptional().describe('With any of these tags'),
    ...paging,
  }),
  read: async (client, query) => {
    const page = await pageOf(client.agents.list({ ...query, include: [] }), {
      limit: query.limit,
      charsMax: 500,
      cursor: ({ id }) => id,
      show: (agent) => pick(agent, 'id', 'name', 'description', 'model', 'tags', 'created_at'),
    });
    return { text: `${counted(page.items.length, 'agent')}.`, data: { ...page } };
  },
});

const showAgent = readingTool({
  name: 'show_agent',
  description: 'Shows an agent: system prompt, model, tools and labels of its memory blocks. No secrets.',
  input: z.object({ agent_id: agentId }),
  read: async (client, { agent_id }) => {
    const agent = await client.agents.retrieve(agent_id);
    return {
      text: `Agent ${agent.name} (${agent.id}) with ${counted(agent.blocks.length, 'block')} and ${counted(agent.tools.length, 'tool')}.`,
      data: {
        agent: {
          ...pick(
            agent,
            'id',
            'name',
            'description',
            'model',
            'tags',
            'system',
            'tool_rules',
            'response_format',
          ),
          ...pick(agent, 'metadata', 'last_run_completion', 'last_stop_reason', 'created_at', 'updated_at'),
          tools: agent.tools.map(({ name }) => name),
          blocks: agent.blocks.map((block) => pick(block, 'id', 'label', 'revision')),
        },
      },
    };
  },
});

const showMemory = readingTool({
  name: 'show_memory',
  description: 'Reads the memory blocks of an agent, with their ids and revisions.',
  input: z.object({
    agent_id: agentId,
    max_chars: maxChars,
    ...paging,
  }),
  read: async (client, { agent_id, max_chars, ...query }) => {
    const page = await pageOf(client.memory.ofAgent(agent_id, query), {
      limit: query.limit,
      charsMax: max_chars,
      cursor: ({ id }) => id,
      show: (block) => pick(block, 'id', 'label', 'description', 'value', 'limit', 'read_only', 'revision'),
    });
    return { text: `${counted(page.items.length, 'block')}.`, data: { ...page } };
  },
});

const history = readingTool({
  name: 'memory_history',
  description: 'Lists the revisions of a memory block, latest first: which run or person wrote each.',
  input: z.object({ block_id: blockId, ...paging }),
  read: async (client, { block_id, limit, after }) => {
    const query = { limit, ...(after !== undefined && { after: Number(after) }) };
    const page = await pageOf(client.memory.revisions(block_id, query), {
      limit,
      charsMax: 500,
      cursor: ({ revision }) => revision,
    });
    return { text: `${counted(page.items.length, 'revision')}.`, data: { ...page } };
  },
});

const diff = readingTool({
  name: 'memory_diff',
  description: 'Shows what changed in a memory block between two revisions, as a unified diff.',
  input: z.object({
    block_id: blockId,
    from: z.int().describe('A revision'),
    to: z.int().exactOptional().describe('A revision; default: the present one'),
  }),
  read: async (client, { block_id, ...query }) => {
    const changed = await client.memory.diff(block_id, query);
    return {
      text: `${changed.label}: ${counted(changed.lines_added, 'line')} added, ${changed.lines_removed} removed.`,
      data: { diff: changed },
    };
  },
});

const heldChanges = readingTool({
  name: 'list_held_changes',
  description: 'Lists memory changes of a batch that are held for review, as unified diffs.',
  input: z.object({
    batch_id: batchId,
    state: z.enum(['held', 'accepted', 'rejected']).default('held'),
    agent_id: z.string().exactOptional(),
    block_id: z.string().exactOptional(),
    ...heldChoice,
    sort: z
      .enum(['created_at', 'risk'])
      .exactOptional()
      .describe('risk: stale, failed and shrunk changes first; created_at (default): oldest first'),
    max_chars: maxChars,
    ...paging,
  }),
  read: async (client, { batch_id, max_chars, ...query }) => {
    const page = await pageOf(client.batches.heldChanges(batch_id, query), {
      limit: query.limit,
      charsMax: max_chars,
      cursor: ({ id }) => id,
    });
    return { text: `${counted(page.items.length, 'change')}.`, data: { ...page } };
  },
});

const listSchedules = readingTool({
  name: 'list_schedules',
  description: 'Lists schedules with their rule, state, next times and last tick.',
  input: z.object(paging),
  read: async (client, query) => {
    const page = await pageOf(client.schedules.list(query), {
      limit: query.limit,
      charsMax: 500,
      cursor: ({ id }) => id,
      show: (schedule) =>
        pick(schedule, 'id', 'name', 'description', 'state', 'state_reason', 'next_ticks', 'last_tick'),
    });
    return { text: `${counted(page.items.length, 'schedule')}.`, data: { ...page } };
  },
});

const showSchedule = readingTool({
  name: 'show_schedule',
  description: 'Shows a schedule: its batch, limits, next times and latest ticks.',
  input: z.object({
    schedule_id: scheduleId,
    next: z.int().min(1).max(50).default(5).describe('Number of next times'),
    ticks: z.int().min(1).max(50).default(5).describe('Number of latest ticks'),
  }),
  read: async (client, { schedule_id, next, ticks }) => {
    const schedule = await client.schedules.retrieve(schedule_id);
    const { description, next_ticks } = await client.schedules.preview(schedule_id, { count: next });
    const latest = await pageOf(client.schedules.ticks(schedule_id, { limit: ticks }), {
      limit: ticks,
      charsMax: 500,
      cursor: ({ due_at }) => due_at,
    });
    return {
      text: `Schedule ${schedule.name} is ${schedule.state}. ${description}.`,
      data: { schedule, next_ticks, ticks: latest.items },
    };
  },
});

const usage = readingTool({
  name: 'usage',
  description: 'Shows runs, tokens and cost of a time by day, model, tag or schedule.',
  input: z.object({
    from: z.iso.date().exactOptional().describe('First day, in UTC; default: 29 days before to'),
    to: z.iso.date().exactOptional().describe('Last day, in UTC; default: today'),
    group_by: z.enum(['day', 'model', 'tag', 'schedule']).default('day'),
  }),
  read: async (client, query) => {
    const report = await client.admin.usage(query);
    return {
      text: `Usage from ${report.from} to ${report.to}, by ${report.group_by}.`,
      data: { usage: report },
    };
  },
});

const checks = readingTool({
  name: 'checks',
  description:
    'Checks the installation: database, queue, workers, provider keys, clocks and books. Each finding says what to do.',
  input: z.object({}),
  read: async (client) => {
    const checks = await client.admin.checks();
    const count = (status: 'failing' | 'warning'): number =>
      checks.checks.filter((check) => check.status === status).length;
    return {
      text: `${counted(count('failing'), 'check')} failing, ${count('warning')} to watch.`,
      data: { checks },
    };
  },
});

/** Reading tools of agents, memory, schedules and the installation. */
export const HOUSE_TOOLS: readonly ReadingTool[] = [
  listAgents,
  showAgent,
  showMemory,
  history,
  diff,
  heldChanges,
  listSchedules,
  showSchedule,
  usage,
  checks,
];
