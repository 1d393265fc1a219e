import { z } from 'zod';
import { agentInput } from './agent.ts';
import { AGENT_ID } from './examples/ids.ts';
import { shownId } from './ids.ts';
import { answered } from './ignored.ts';
import { shownTime } from './moment.ts';

/** An agent of an upload or a download of agents, a line each. */
export const agentLine = z.strictObject({ ...agentInput.shape, id: answered }).meta({
  id: 'AgentLine',
  description: 'Blocks of the same `id` in several lines are one block.',
});
export type AgentLine = z.output<typeof agentLine>;

const flag = z.stringbool({ truthy: ['true', '1'], falsy: ['false', '0'] });
const handle = z.string().max(200);

/** The form of an import, with Letta's fields. */
export const importForm = z
  .strictObject({
    file: z
      .string()
      .describe('The agent file, in either of the formats of Letta; at most 16 MiB.')
      .meta({ format: 'binary' }),
    append_copy_suffix: flag.optional().describe('Appends `_copy` to the names.'),
    name: z.string().max(200).optional().describe('Name of the agents, in place of those of the file.'),
    override_name: z.string().max(200).optional().describe('Older name of `name`.'),
    strip_messages: flag.optional().describe('Leaves the messages out.'),
    model: handle
      .optional()
      .describe('Model handle of the agents, in place of those of the file. Beyond Letta.'),
    strict: flag.optional().describe('Refuses a file of which a part would be left out. Beyond Letta.'),
    secrets: z
      .string()
      .max(100_000)
      .optional()
      .describe('JSON object of names and values, for all agents of the file.'),
    env_vars_json: z.string().max(100_000).optional().describe('Older name of `secrets`.'),
    embedding: handle.optional().describe('Stored; without effect.'),
    override_embedding_handle: handle.optional().describe('Older name of `embedding`.'),
    override_existing_tools: flag.optional().describe('Ignored: a file never changes a tool.'),
    project_id: answered,
  })
  .meta({ id: 'AgentImport', examples: [{ file: '{"agents": […], "blocks": […]}', strict: 'true' }] });
export type ImportForm = z.output<typeof importForm>;

export const importReport = z
  .object({
    agent_ids: z.array(shownId('agent')).describe('New agents, in the order of the file.'),
    left_out: z
      .array(z.object({ path: z.string(), reason: z.string() }).meta({ id: 'LeftOut' }))
      .describe('Parts of the file that did not come over; at most 100. Beyond Letta.'),
    left_out_total: z.int().describe('Number of such parts. Beyond Letta.'),
  })
  .meta({
    id: 'AgentImportReport',
    examples: [
      {
        agent_ids: [AGENT_ID],
        left_out: [{ path: '/agents/0/embedding_config', reason: 'Nightshift has no embeddings.' }],
        left_out_total: 1,
      },
    ],
  });
export type ImportReport = z.output<typeof importReport>;

const record = z.record(z.string(), z.unknown());
const records = z.array(record);

const EMPTY_FILE = {
  agents: [],
  groups: [],
  blocks: [],
  files: [],
  sources: [],
  tools: [],
  mcp_servers: [],
  metadata: {},
  created_at: '2026-11-30T02:14:30.911Z',
};

/** Letta's present format. */
const exportedFile = z
  .looseObject({
    agents: records,
    groups: records,
    blocks: records,
    files: records,
    sources: records,
    tools: records,
    mcp_servers: records,
    metadata: z.record(z.string(), z.string()),
    created_at: shownTime,
  })
  .meta({
    id: 'AgentFile',
    examples: [EMPTY_FILE],
  });

/** Letta's older format. */
const exportedLegacyFile = z
  .looseObject({
    agent_type: z.string(),
    name: z.string(),
    core_memory: records,
    messages: records,
    tools: records,
  })
  .meta({
    id: 'LegacyAgentFile',
    examples: [{ agent_type: 'letta_v1_agent', name: 'Ann', core_memory: [], messages: [], tools: [] }],
  });

export const exported = z.union([exportedFile, exportedLegacyFile]).meta({
  examples: [EMPTY_FILE],
});

/** A line of the download of agents. */
export const exportedLine = z
  .looseObject({ id: shownId('agent'), name: z.string(), model: z.string() })
  .meta({
    id: 'ExportedAgent',
    examples: [{ id: AGENT_ID, name: 'Ann', model: 'anthropic/claude-haiku-4-5' }],
  });
