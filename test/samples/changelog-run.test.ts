import { expect, test } from 'vitest';
import { obeyScript } from '../../apps/simulator/src/scripts/obey.ts';
import type { ContentBlock, JsonObject, Message } from '../../apps/simulator/src/scripts/script.ts';
import { applyMemoryTool } from '../../libs/agent-core/src/memory/apply.ts';
import { run as compareVersions } from '../../samples/tools/compare_versions.ts';
import { checkMemories } from '../../scripts/samples/check.ts';
import { buildPrompt, toolNames } from '../../scripts/samples/prompt.ts';
import { memoryLabels, readExpected, readSamples } from '../../scripts/samples/sample.ts';

type Memory = Record<string, string>;

/** A run of an agent: its memory afterwards, and the names of its calls by step. */
interface Run {
  readonly memory: Memory;
  readonly messages: Message[];
  readonly calls: string[][];
}

/** Takes an agent to its end: the simulated model calls, and the memory tools of the workers answer. Throws when a call fails. */
function runAgent(prompt: string, before?: Run): Run {
  const memory = {
    ...(before?.memory ?? Object.fromEntries(memoryLabels.map((label) => [label, ''] as const))),
  };
  const messages: Message[] = [...(before?.messages ?? []), { role: 'user', content: prompt }];
  const calls: string[][] = [];
  for (;;) {
    const tools = toolNames.map((name) => ({ name }));
    const params = { model: 'simulated', max_tokens: 4096, messages, tools };
    const { content, stop_reason } = obeyScript({ params, seed: 'test', draw: () => 0.5 }, {});
    const named = content.map((block, i): ContentBlock => ({
      ...block,
      id: `toolu_${messages.length}_${i}`,
    }));
    messages.push({ role: 'assistant', content: named });
    if (stop_reason === 'end_turn') return { memory, messages, calls };
    calls.push(named.map(nameOf));
    messages.push({ role: 'user', content: named.map((use) => answer(use, memory)) });
  }
}

function nameOf({ name }: ContentBlock): string {
  return typeof name === 'string' ? name : '';
}

function answer(use: ContentBlock, memory: Memory): ContentBlock {
  const name = nameOf(use);
  const input = use.input as JsonObject;
  const content =
    name === 'compare_versions' ? JSON.stringify(compareVersions(input)) : write(name, input, memory);
  return { type: 'tool_result', tool_use_id: use.id ?? '', content };
}

function write(name: string, input: JsonObject, memory: Memory): string {
  const blocks = Object.entries(memory).map(([label, value]) => ({
    block_id: label,
    revision: 1,
    label,
    description: `About ${label}.`,
    value,
    char_limit: 5_000,
    read_only: false,
  }));
  const { outcome, write: written } = applyMemoryTool(name, input, blocks);
  if (!outcome.ok || written === null) throw new Error(`${name}: ${outcome.result}`);
  memory[written.block_id] = written.value;
  return outcome.result;
}

const samples = readSamples();
const evenings = new Map(
  samples.map((sample) => [sample.custom_id, runAgent(buildPrompt(sample, { withoutLatest: true }))]),
);
const nights = new Map(
  samples.map((sample) => [sample.custom_id, runAgent(buildPrompt(sample), evenings.get(sample.custom_id))]),
);

function missingFacts(runs: ReadonlyMap<string, Run>): readonly unknown[] {
  const memories = new Map([...runs].map(([id, { memory }]) => [id, memory]));
  const { checked, missing } = checkMemories(samples, readExpected(), memories);
  expect(checked).toBeGreaterThan(samples.length);
  return missing;
}

test('the memory of every agent holds every expected fact after the night, and not before it', () => {
  expect(missingFacts(evenings).length).toBeGreaterThanOrEqual(samples.length);
  expect(missingFacts(nights)).toEqual([]);
});

test('every agent compares versions, then writes every block that changes at once', () => {
  for (const [id, { calls }] of evenings) {
    expect(calls, id).toEqual([
      ['compare_versions'],
      ['memory_rethink', 'memory_insert', 'core_memory_append'],
    ]);
  }
  for (const [id, { calls }] of nights) {
    expect(calls.length, id).toBe(2);
    expect(calls[0], id).toEqual(['compare_versions']);
    expect(calls[1]?.[0], id).toBe('memory_rethink');
  }
  const atNight = new Set([...nights.values()].flatMap(({ calls }) => calls.flat()));
  expect([...atNight].sort()).toEqual([
    'compare_versions',
    'memory_insert',
    'memory_replace',
    'memory_rethink',
  ]);
});

test('every written line is in the notes', () => {
  for (const sample of samples) {
    const said = sample.notes.map((note) => note.text.replaceAll('\t', ' ')).join('\n');
    const { breaking_changes = '', security = '' } = nights.get(sample.custom_id)?.memory ?? {};
    for (const line of `${breaking_changes}\n${security}`.split('\n')) {
      const isFrame = /^#|^- A new major version\.$|^The notes read so far name none\.$/.test(line);
      if (!isFrame) expect(said, sample.custom_id).toContain(line.replace(/^- /, ''));
    }
  }
});
