import { DEFAULT_PROJECT_ID, findTools } from '../../libs/db/src/index.ts';
import { createClient } from '../demo/client.ts';
import { emptyNotes, storeAgents } from '../stack/agents.ts';
import type { Stack } from '../stack/stack.ts';

const AGENTS_PER_BATCH = 2_000;
const TOOLS = ['core_memory_append', 'memory_rethink', 'charge_once'];

/**
 * Stores one agent per run through the store, and submits batches of some thousand runs over HTTP. Each run
 * takes three steps: a memory call, then a memory call beside a charge that must happen once, then an end.
 */
export async function submitLoad(stack: Stack, runs: number, effectsFile: string): Promise<void> {
  const client = createClient(stack.apiUrl, stack.apiKey);
  const tools = await findTools(stack.db, DEFAULT_PROJECT_ID, {
    ids: [],
    names: TOOLS,
  });
  const missing = TOOLS.filter((name) => !tools.some((tool) => tool.name === name));
  if (missing.length > 0) throw new Error(`There is no tool ${missing.join(', ')}.`);
  for (let from = 0; from < runs; from += AGENTS_PER_BATCH) {
    const ids = await storeAgents(stack.db, Math.min(AGENTS_PER_BATCH, runs - from), TOOLS, (place) => ({
      name: `agent ${from + place}`,
      system: 'You keep the books of one customer.',
      blocks: [emptyNotes()],
    }));
    await client.post('/v1/messages/batches', {
      requests: ids.map((id, index) => ({
        agent_id: `agent-${id}`,
        custom_id: `run-${from + index}`,
        input: [
          `Keep the books of customer ${from + index}.`,
          JSON.stringify({
            tool: 'core_memory_append',
            args: { label: 'notes', content: `order ${from + index}` },
          }),
          JSON.stringify({
            tool: 'memory_rethink',
            args: { label: 'notes', new_memory: `paid ${from + index}` },
          }),
          JSON.stringify({
            tool: 'charge_once',
            args: { ledger: effectsFile, amount: from + index },
            parallel: true,
          }),
        ].join('\n'),
      })),
    });
  }
}
