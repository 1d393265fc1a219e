import type { ToolDefinition } from '@nightshift/agent-core';
import {
  createAgents,
  DEFAULT_PROJECT_ID,
  inTransaction,
  newConversationId,
  newId,
  registerMemoryTools,
  type BlockContent,
  type Database,
  type NewAgent,
  type NewBatch,
  type NewRun,
} from '../src/index.ts';

/** A request with the given texts as user messages. */
export function aRun(agentId: string, texts: readonly string[] = ['go']): NewRun {
  return {
    agent_id: agentId,
    custom_id: null,
    max_steps: 10,
    isolated: false,
    messages: texts.map((text) => ({
      role: 'user',
      content: [{ type: 'text', text }],
      otid: null,
      name: null,
    })),
  };
}

/** A tool whose calls the caller carries out. */
export function aClientTool(name: string): ToolDefinition {
  return {
    name,
    kind: 'client',
    description: `To ${name}.`,
    input_schema: { type: 'object' },
    side_effects: 'none',
    return_char_limit: 1_000,
    timeout_ms: 1_000,
    requires_approval: false,
  };
}

export function aBlock(overrides: Partial<BlockContent> = {}): BlockContent {
  return {
    label: 'human',
    value: '',
    description: null,
    char_limit: 100,
    read_only: false,
    conflict_policy: 'merge',
    metadata: {},
    tags: [],
    is_template: false,
    hidden: false,
    ...overrides,
  };
}

export function aBatch(runs: readonly NewRun[], overrides: Partial<NewBatch> = {}): NewBatch {
  return { id: newId(), callback_url: null, metadata: null, idempotency: null, runs, ...overrides };
}

export function anAgent(overrides: Partial<NewAgent> = {}): NewAgent {
  return {
    id: newId(),
    conversation_id: newConversationId(),
    name: 'agent',
    description: null,
    agent_type: 'letta_v1_agent',
    system: 'You keep notes.',
    model: 'anthropic/claude-haiku-4-5',
    model_settings: { max_output_tokens: 8192, parallel_tool_calls: true, extra: {} },
    tool_rules: [],
    metadata: null,
    tags: [],
    timezone: 'UTC',
    message_buffer_autoclear: false,
    context_window_limit: 128_000,
    hidden: false,
    echoed: {},
    blocks: [],
    block_ids: [],
    tool_ids: [],
    ...overrides,
  };
}

/** Stores agents, each with a `human` block and the named built-in tools. */
export async function createTestAgents(
  db: Database,
  count: number,
  options: { readonly system?: string; readonly tools?: readonly string[] } = {},
): Promise<readonly NewAgent[]> {
  return inTransaction(db, async (trx) => {
    await registerMemoryTools(trx, DEFAULT_PROJECT_ID);
    const rows = await trx.selectFrom('tool').select(['id', 'name']).execute();
    const ids = new Map(rows.map((row) => [row.name, row.id]));
    const agents = Array.from({ length: count }, () =>
      anAgent({
        ...(options.system === undefined ? {} : { system: options.system }),
        tool_ids: (options.tools ?? ['rethink_memory']).map((name) => ids.get(name) ?? newId()),
        blocks: [
          {
            id: newId(),
            label: 'human',
            value: 'Name: unknown',
            description: null,
            char_limit: 100_000,
            read_only: false,
            metadata: {},
            tags: [],
            is_template: false,
            hidden: false,
          },
        ],
      }),
    );
    await createAgents(trx, DEFAULT_PROJECT_ID, agents);
    return agents;
  });
}
