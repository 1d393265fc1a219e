/** The same conversations as realtime loops of `POST /v1/messages`, at list price. */
import type { Simulator } from '../../apps/simulator/src/index.ts';
import { MEMORY_TOOLS } from '../../libs/agent-core/src/index.ts';
import { inputOf, MAX_TOKENS, memoryOf, MODEL, systemOf, type Cell } from './conversation.ts';
import { description, parameters, run as readPage } from './tools/read_page.ts';

interface Block {
  readonly type: string;
  readonly [key: string]: unknown;
}
interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: readonly Block[];
}

/** Time between two steps of a loop. */
const STEP_MS = 5_000;
/** The marks of agent frameworks live for five minutes. */
const MARK = { cache_control: { type: 'ephemeral' } };

const TOOLS = [
  { name: 'read_page', description, input_schema: parameters },
  ...MEMORY_TOOLS.filter(({ name }) => name === 'core_memory_append').map((tool) => ({
    name: tool.name,
    description: tool.description,
    input_schema: tool.input_schema,
  })),
];

/**
 * Runs the loops of `runs` agents side by side and returns the dollars of one run. `cached`: with a mark at the end of tools and
 * system prompt, and another at the end of the messages.
 */
export async function realtimeUsd(
  simulator: Simulator,
  cell: Cell,
  runs: number,
  cached: boolean,
): Promise<number> {
  const { control } = simulator;
  const mark = cached ? MARK : {};
  const loops = Array.from({ length: runs }, (_, ordinal) => {
    const agent = `customer ${ordinal}`;
    const system = [
      { type: 'text', text: systemOf(cell), ...mark },
      { type: 'text', text: memoryOf(cell, agent) },
    ];
    const messages: Message[] = [{ role: 'user', content: [{ type: 'text', text: inputOf(cell, agent) }] }];
    return { system, messages, notes: '' };
  });
  const before = control.ledger().direct_messages.usd;
  for (let step = 1; step <= cell.steps; step++) {
    for (const loop of loops) {
      const { system, messages } = loop;
      const content = await ask(simulator, system, marked(messages, mark));
      const results = content.filter(({ type }) => type === 'tool_use').map((call) => resultOf(call, loop));
      if (results.length === 0 && step < cell.steps) throw new Error(`A loop ended at step ${step}.`);
      messages.push({ role: 'assistant', content }, { role: 'user', content: results });
    }
    await control.advance(STEP_MS);
  }
  return (control.ledger().direct_messages.usd - before) / runs;
}

function marked(messages: readonly Message[], mark: object): readonly Message[] {
  const last = messages.at(-1);
  if (last === undefined) return messages;
  const content = last.content.map((block, at) =>
    at < last.content.length - 1 ? block : { ...block, ...mark },
  );
  return [...messages.slice(0, -1), { ...last, content }];
}

async function ask(
  { apiUrl }: Simulator,
  system: readonly object[],
  messages: readonly Message[],
): Promise<readonly Block[]> {
  const response = await fetch(`${apiUrl}/v1/messages`, {
    method: 'POST',
    headers: {
      'x-api-key': 'realtime',
      'anthropic-version': '2026-10-21',
      'content-type': 'application/json',
    },
    body: JSON.stringify({ model: MODEL, max_tokens: MAX_TOKENS, tools: TOOLS, system, messages }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`POST /v1/messages answered ${response.status}: ${text}`);
  return (JSON.parse(text) as { content: readonly Block[] }).content;
}

/** Answers as the product's tools do: a write shows its whole block. */
function resultOf({ id, name, input }: Block, loop: { notes: string }): Block {
  const args = input as Readonly<Record<string, unknown>>;
  if (name === 'core_memory_append') loop.notes += `\n${String(args['content'])}`;
  return {
    type: 'tool_result',
    tool_use_id: id,
    content: name === 'read_page' ? readPage(args) : loop.notes,
  };
}
