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
const TOOLS = ['core_memory_append', 'memory_rethink'];

/**
 * Stores `count` agents, each with one empty memory block and two memory tools, straight into the database: what is
 * measured is the batch, not twenty thousand requests that make agents. Returns their ids.
 */
export async function storeAgents(db: Database, count: number): Promise<readonly string[]> {
  const tools = await findTools(db, DEFAULT_PROJECT_ID, { ids: [], names: TOOLS });
  const toolIds = tools.map((tool) => tool.id);
  const ids: string[] = [];
  while (ids.length < count) {
    const agents = Array.from({ length: Math.min(AGENTS_PER_TRANSACTION, count - ids.length) }, (_, place) =>
      agentOf(ids.length + place, toolIds),
    );
    await inTransaction(db, (trx) => createAgents(trx, DEFAULT_PROJECT_ID, agents));
    ids.push(...agents.map((agent) => agent.id));
  }
  return ids;
}

function agentOf(place: number, toolIds: readonly string[]): NewAgent {
  return {
    id: newId(),
    conversation_id: newConversationId(),
    name: `load ${place}`,
    description: null,
    agent_type: 'letta_v1_agent',
    system:
      'You keep the notes of one customer. Use your tools to write down what happened, then answer briefly.',
    model: 'anthropic/claude-haiku-4-5',
    model_settings: { max_output_tokens: 4096, parallel_tool_calls: true, extra: {} },
    tool_rules: [],
    metadata: null,
    tags: ['load'],
    timezone: 'UTC',
    message_buffer_autoclear: false,
    context_window_limit: 200_000,
    hidden: false,
    echoed: {},
    blocks: [
      {
        id: newId(),
        label: 'notes',
        value: '',
        description: 'What is known of the customer.',
        char_limit: 20_000,
        read_only: false,
        metadata: {},
        tags: [],
        is_template: false,
        hidden: false,
      },
    ],
    block_ids: [],
    tool_ids: toolIds,
  };
}

/** What the agent at this place is told: two memory calls, one a turn. Its answer is the third step. */
export function inputOf(place: number): string {
  return [
    `Order ${place} came in overnight. Note it, then rewrite the notes.`,
    { tool: 'core_memory_append', args: { label: 'notes', content: `order ${place}, three boxes, paid` } },
    { tool: 'memory_rethink', args: { label: 'notes', new_memory: `Customer of order ${place}. ${FACTS}` } },
  ]
    .map((line) => (typeof line === 'string' ? line : JSON.stringify(line)))
    .join('\n');
}

const FACTS =
  'Prefers delivery in the morning. Pays by invoice within thirty days. Asked twice for larger boxes; the second time ' +
  'they were sent. Speaks English and French. Never call on Fridays.';
