import type {
  ContentBlock,
  JsonObject,
  JsonValue,
  Message,
  MessageParams,
  ModelScript,
} from '../../apps/simulator/src/scripts/script.ts';
import { applyMemoryTool } from '../../libs/agent-core/src/memory/apply.ts';
import { compileMemory } from '../../libs/agent-core/src/memory/compile.ts';
import type { BlockView } from '../../libs/agent-core/src/model/block.ts';
import { run as compareVersions } from '../../samples/tools/compare_versions.ts';
import { systemPrompt, toolNames } from '../../scripts/samples/prompt.ts';
import { memoryLabels } from '../../scripts/samples/sample.ts';

export type Memory = Record<string, string>;

export interface LoopOptions {
  tools?: readonly string[];
  /** Refuses a call by answering with this text as an error. */
  refuse?: (name: string, label: string) => string | undefined;
  /** Shows the memory with its lines numbered. */
  lineNumbers?: boolean;
  /** Messages of earlier runs. */
  history?: readonly Message[];
}

export interface LoopResult {
  memory: Memory;
  steps: number;
  calls: { name: string; label: string; failed: boolean }[];
  /** Calls per step. */
  widths: number[];
  text: string;
  messages: Message[];
}

export function emptyMemory(): Memory {
  return Object.fromEntries(memoryLabels.map((label) => [label, '']));
}

/**
 * Runs one agent to its end: every step renders the memory, asks the script, and applies its calls in order with
 * the memory tools that the workers use.
 */
export function runAgent(
  script: ModelScript,
  prompt: string,
  start: Memory,
  options: LoopOptions = {},
): LoopResult {
  const memory = { ...start };
  const messages: Message[] = [...(options.history ?? []), { role: 'user', content: prompt }];
  const agentType = options.lineNumbers === true ? 'letta_v1_agent' : 'memgpt_agent';
  const result: LoopResult = { memory, steps: 0, calls: [], widths: [], text: '', messages };
  for (;;) {
    result.steps += 1;
    if (result.steps > 20) throw new Error('the script does not come to an end');
    const memorySection = compileMemory(toBlocks(memory), {
      agent_type: agentType,
      model_provider: 'anthropic',
    });
    const params: MessageParams = {
      model: 'simulated',
      max_tokens: 4096,
      system: `${systemPrompt}\n\n${memorySection}`,
      messages: structuredClone(messages),
      tools: (options.tools ?? toolNames).map((name) => ({ name })),
    };
    const reply = script({ params, seed: 'test', draw: () => 0.5 }, {});
    const content = reply.content.map((block, i) =>
      block.type === 'tool_use' ? { ...block, id: `toolu_${result.steps}_${i}` } : block,
    );
    messages.push({ role: 'assistant', content });
    if (reply.stop_reason === 'end_turn') {
      result.text = content.map((block) => textOf(block.text)).join('');
      return result;
    }
    const uses = content.filter(({ type }) => type === 'tool_use');
    result.widths.push(uses.length);
    messages.push({ role: 'user', content: uses.map((use) => answer(use, memory, result, options)) });
  }
}

function answer(use: ContentBlock, memory: Memory, result: LoopResult, options: LoopOptions): ContentBlock {
  const name = textOf(use.name);
  const input = use.input as JsonObject;
  const named = input.label ?? input.target_block_label;
  const label = typeof named === 'string' ? named : '';
  const base = { type: 'tool_result', tool_use_id: textOf(use.id) };
  try {
    const refusal = options.refuse?.(name, label);
    if (refusal !== undefined) throw new Error(refusal);
    const content =
      name === 'compare_versions' ? JSON.stringify(compareVersions(input)) : write(name, input, memory);
    result.calls.push({ name, label, failed: false });
    return { ...base, content };
  } catch (error) {
    result.calls.push({ name, label, failed: true });
    return { ...base, content: (error as Error).message, is_error: true };
  }
}

function write(name: string, input: JsonObject, memory: Memory): string {
  const blocks = toBlocks(memory);
  const { outcome, write: written } = applyMemoryTool(name, input, blocks);
  if (!outcome.ok) throw new Error(outcome.result);
  for (const { block_id, label } of blocks) {
    if (block_id === written?.block_id) memory[label] = written.value;
  }
  return outcome.result;
}

function toBlocks(memory: Memory): BlockView[] {
  return Object.entries(memory).map(([label, value]) => ({
    block_id: label,
    revision: 1,
    label,
    description: `About ${label}.`,
    value,
    char_limit: 5_000,
    read_only: false,
  }));
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}
