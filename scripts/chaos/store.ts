import { newId, type NewAgent } from '../../libs/db/src/index.ts';

/** An agent with one memory block, as the store takes it. */
export function toNewAgent(
  ids: { readonly id: string; readonly conversation_id: string },
  name: string,
  toolIds: readonly string[],
): NewAgent {
  return {
    ...ids,
    name,
    description: null,
    agent_type: 'letta_v1_agent',
    system: 'You keep the books of one customer.',
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
    blocks: [
      {
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
      },
    ],
    block_ids: [],
    tool_ids: [...toolIds],
  };
}
