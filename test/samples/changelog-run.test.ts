import { expect, test } from 'vitest';
import { obeyScript } from '../../apps/simulator/src/scripts/obey.ts';
import type { ContentBlock, JsonObject, Message } from '../../apps/simulator/src/scripts/script.ts';
import { applyMemoryTool } from '../../libs/agent-core/src/memory/apply.ts';
import { compileMemory } from '../../libs/agent-core/src/memory/compile.ts';
import { planRewrite } from '../../libs/intake/src/index.ts';
import { checkMemories } from '../../scripts/samples/check.ts';
import { memoryLabels, readExpected, readSamples, type Sample } from '../../scripts/samples/sample.ts';
import { blockDescriptions, buildTranscript, systemPrompt } from '../../scripts/samples/transcript.ts';

type Memory = Readonly<Record<string, string>>;

/** A rewrite of an agent's memory: the memory afterwards, and the names of the calls by step. */
interface Rewrite {
  readonly memory: Memory;
  readonly calls: readonly (readonly string[])[];
}

const blocksOf = (memory: Memory) =>
  memoryLabels.map((label) => ({
    block_id: label,
    revision: 1,
    label,
    description: blockDescriptions[label],
    value: memory[label] ?? '',
    char_limit: 100_000,
    read_only: false,
  }));

/** Takes a rewrite to its end: the simulated model calls, and the memory tools of the workers answer. Throws when a call fails. */
function rewrite(sample: Sample, memory: Memory, notes: Sample['notes']): Rewrite {
  const messages: Message[] = [{ role: 'user', content: inputOf(sample, memory, notes) }];
  const system = compileMemory(blocksOf(memory), {
    agent_type: 'letta_v1_agent',
    model_provider: 'anthropic',
  });
  const after = { ...memory };
  const calls: string[][] = [];
  for (;;) {
    const params = { model: 'simulated', max_tokens: 4096, messages, system: `Prompt.\n\n${system}` };
    const { content, stop_reason } = obeyScript({ params, seed: 'test', draw: () => 0.5 }, {});
    if (stop_reason === 'end_turn') return { memory: after, calls };
    const uses = content.map((block, index) => ({ ...block, id: `toolu_${messages.length}_${index}` }));
    calls.push(uses.map(nameOf));
    messages.push({ role: 'assistant', content: uses });
    messages.push({ role: 'user', content: uses.map((use) => answer(use, after)) });
  }
}

/** Returns the input that a memory rewrite gives to its run. */
function inputOf(sample: Sample, memory: Memory, notes: Sample['notes']): string {
  const now = new Date('2026-11-26T02:00:00.000Z');
  const said = buildTranscript(sample, notes).map(({ role, name, content, said_at }, index) => ({
    ...{
      seq: index + 1,
      role,
      text: content,
      at: said_at == null ? now : new Date(said_at),
      name: name ?? null,
    },
  }));
  const plan = planRewrite(
    {
      agent: {
        id: sample.custom_id,
        name: sample.custom_id,
        description: null,
        system: systemPrompt,
        context_window_limit: 200_000,
        blocks: blocksOf(memory),
        last_run: null,
      },
      reading: { position: 0, top_seq: said.length, messages: said, is_cut: false },
      tick_due_at: null,
      accepted_at: now,
    },
    { kind: 'memory_rewrite', agents: {}, blocks: memoryLabels },
  );
  if ('skip' in plan) throw new Error(`${sample.custom_id} is skipped: ${plan.skip}.`);
  const text = plan.runs[0]?.messages[0]?.content[0]?.['text'];
  return typeof text === 'string' ? text : '';
}

function nameOf({ name }: ContentBlock): string {
  return typeof name === 'string' ? name : '';
}

function answer(use: ContentBlock, memory: Record<string, string>): ContentBlock {
  const { outcome, write } = applyMemoryTool(nameOf(use), use['input'] as JsonObject, blocksOf(memory));
  if (!outcome.ok || write === null) throw new Error(`${nameOf(use)}: ${outcome.result}`);
  memory[write.block_id] = write.value;
  return { type: 'tool_result', tool_use_id: use['id'] ?? '', content: outcome.result };
}

const samples = readSamples();
const evenings = new Map(
  samples.map((sample) => [sample.custom_id, rewrite(sample, {}, sample.notes.slice(1))]),
);
const nights = new Map(
  samples.map((sample) => [
    sample.custom_id,
    rewrite(sample, evenings.get(sample.custom_id)?.memory ?? {}, sample.notes.slice(0, 1)),
  ]),
);

function missingFacts(rewrites: ReadonlyMap<string, Rewrite>): readonly unknown[] {
  const memories = new Map([...rewrites].map(([id, { memory }]) => [id, memory]));
  const { checked, missing } = checkMemories(samples, readExpected(), memories);
  expect(checked).toBeGreaterThan(samples.length);
  return missing;
}

test('the memory of every agent holds every expected fact after the second rewrite, and not before it', () => {
  expect(missingFacts(evenings).length).toBeGreaterThanOrEqual(samples.length);
  expect(missingFacts(nights)).toEqual([]);
});

test('a rewrite writes empty blocks anew, and changes single lines of others, in one step', () => {
  for (const [id, { calls }] of [...evenings, ...nights]) expect(calls.length, id).toBe(1);
  const toolsOf = (rewrites: typeof nights) =>
    [...new Set([...rewrites.values()].flatMap(({ calls }) => calls.flat()))].sort();
  expect(toolsOf(evenings)).toEqual(['memory_rethink']);
  expect(toolsOf(nights)).toEqual(['memory_insert', 'memory_replace', 'memory_rethink']);
});

test('every written line is in the transcript', () => {
  for (const sample of samples) {
    const said = buildTranscript(sample, sample.notes)
      .map(({ content }) => content.replaceAll('\t', ' '))
      .join('\n');
    const { memory = {} } = nights.get(sample.custom_id) ?? {};
    for (const line of Object.values(memory).join('\n').split('\n'))
      expect(said, sample.custom_id).toContain(line.replace(/^- /, '').replace(/ \([\d-]+\)$/, ''));
  }
});
