import type { Database } from '../../libs/db/src/index.ts';
import { emptyNotes, storeAgents } from '../stack/agents.ts';

/** Stores `count` agents of the load, each with an empty memory block and two memory tools. Returns their ids. */
export function storeLoadAgents(db: Database, count: number): Promise<readonly string[]> {
  return storeAgents(db, count, ['core_memory_append', 'memory_rethink'], (place) => ({
    name: `load ${place}`,
    system:
      'You keep the notes of one customer. Use your tools to write down what happened, then answer briefly.',
    model_settings: { max_output_tokens: 4096, parallel_tool_calls: true, extra: {} },
    tags: ['load'],
    blocks: [emptyNotes({ description: 'What is known of the customer.', char_limit: 20_000 })],
  }));
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
