import { memoryLabels, type MemoryLabel, type ReleaseNote, type Sample } from '../samples/sample.ts';
import { buildBlocks, buildTranscript, systemPrompt } from '../samples/transcript.ts';
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

/** Creates one agent per sample over the API: a system prompt, three empty memory blocks, and a tag. */
export function createAgents(
  client: Client,
  samples: readonly Sample[],
  { model, tag }: { readonly model: string; readonly tag: string },
): Promise<DemoAgent[]> {
  return eachOf(samples, REQUESTS_AT_ONCE, async (sample) => {
    const agent = await client.post<{ readonly id: string }>('/v1/agents/', {
      name: sample.custom_id,
      model,
      system: systemPrompt,
      include_base_tools: false,
      tags: [tag],
      memory_blocks: buildBlocks(),
    });
    return { id: agent.id, sample };
  });
}

/** Appends messages about some releases to the agents' conversations. Returns their number. */
export async function appendReleases(
  client: Client,
  agents: readonly DemoAgent[],
  notesOf: (sample: Sample) => readonly ReleaseNote[],
): Promise<number> {
  const { appended } = await client.post<{ readonly appended: number }>('/v1/messages/append', {
    items: agents.map(({ id, sample }) => ({
      agent_id: id,
      messages: buildTranscript(sample, notesOf(sample)),
    })),
  });
  return appended;
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
