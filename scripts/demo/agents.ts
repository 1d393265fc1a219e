import { buildBlocks, systemPrompt, toolNames } from '../samples/prompt.ts';
import { memoryLabels, type MemoryLabel, type Sample } from '../samples/sample.ts';
import { eachOf, type Client } from './client.ts';

interface WireBlock {
  readonly id: string;
  readonly label: string;
  readonly value: string;
}

/** An agent of the demo and its release notes. */
export interface DemoAgent {
  readonly id: string;
  readonly sample: Sample;
}

const REQUESTS_AT_ONCE = 16;

/**
 * Creates one agent per sample over the API: a system prompt, three memory blocks, four memory tools, a
 * module tool.
 */
export function createAgents(
  client: Client,
  samples: readonly Sample[],
  model: string,
): Promise<DemoAgent[]> {
  return eachOf(samples, REQUESTS_AT_ONCE, async (sample) => {
    const agent = await client.post<{ readonly id: string }>('/v1/agents/', {
      name: sample.custom_id,
      model,
      system: systemPrompt,
      include_base_tools: false,
      tools: toolNames,
      tags: ['demo'],
      memory_blocks: buildBlocks(),
    });
    return { id: agent.id, sample };
  });
}

/** Reads the memories of every agent, by sample and label. */
export async function readMemories(
  client: Client,
  agents: readonly DemoAgent[],
): Promise<Map<string, Record<MemoryLabel, string>>> {
  const memories = await eachOf(agents, REQUESTS_AT_ONCE, async ({ id, sample }) => {
    const blocks = await client.get<readonly WireBlock[]>(`/v1/agents/${id}/core-memory/blocks`);
    const values = Object.fromEntries(
      memoryLabels.map((label) => [label, blocks.find((block) => block.label === label)?.value ?? '']),
    );
    return [sample.custom_id, values as Record<MemoryLabel, string>] as const;
  });
  return new Map(memories);
}
