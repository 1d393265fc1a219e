import {
  createAgents,
  DEFAULT_PROJECT_ID,
  findTools,
  inTransaction,
  newConversationId,
  newId,
  type Database,
  type NewAgent,
} from '../../libs/db/src/index.ts';

const AGENTS_PER_TRANSACTION = 2_000;

type AgentTraits = Pick<NewAgent, 'name' | 'system'> & Partial<NewAgent>;

/** Returns an empty memory block called `notes`. */
export function emptyNotes(traits: Partial<NewAgent['blocks'][number]> = {}): NewAgent['blocks'][number] {
  return {
    id: newId(),
    label: 'notes',
    value: '',
    description: null,
    char_limit: 10_000,
    read_only: false,
    metadata: {},
    tags: [],
    is_template: false,
    hidden: false,
    ...traits,
  };
}

/** Stores `count` agents with the named tools in bulk, without the API. Returns their ids. */
export async function storeAgents(
  db: Database,
  count: number,
  toolNames: readonly string[],
  traitsOf: (place: number) => AgentTraits,
): Promise<readonly string[]> {
  const tools = await findTools(db, DEFAULT_PROJECT_ID, { ids: [], names: toolNames });
  const toolIds = tools.map((tool) => tool.id);
  const ids: string[] = [];
  while (ids.length < count) {
    const agents = Array.from({ length: Math.min(AGENTS_PER_TRANSACTION, count - ids.length) }, (_, place) =>
      agentOf(toolIds, traitsOf(ids.length + place)),
    );
    await inTransaction(db, (trx) => createAgents(trx, DEFAULT_PROJECT_ID, agents));
    ids.push(...agents.map((agent) => agent.id));
  }
  return ids;
}

/** Describes an agent with these tools and traits, and a plain agent's defaults for every other field. */
export function agentOf(tool_ids: readonly string[], traits: AgentTraits): NewAgent {
  return {
    id: newId(),
    conversation_id: newConversationId(),
    description: null,
    agent_type: 'letta_v1_agent',
    model: 'anthropic/claude-haiku-4-5',
    model_settings: { max_output_tokens: 1024, parallel_tool_calls: true, extra: {} },
    tool_rules: [],
    metadata: null,
    tags: [],
    timezone: 'UTC',
    message_buffer_autoclear: false,
    context_window_limit: 200_000,
    hidden: false,
    echoed: {},
    blocks: [],
    block_ids: [],
    tool_ids,
    ...traits,
  };
}
