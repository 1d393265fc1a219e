/**
 * The model behind the provider's stand-in. It plays the script that the caller's message carries: what it answers
 * depends on the request alone, so a request that is sent again is answered alike.
 */

/** One answer of a script. */
export interface Turn {
  readonly calls?: readonly { readonly tool: string; readonly args: Readonly<Record<string, unknown>> }[];
  readonly text?: string;
  readonly stop?: 'refusal' | 'pause_turn';
  /** Cut off inside its call until `max_tokens` is doubled. */
  readonly cut?: boolean;
}

const MARK = 'script:';

/** The text of an input that makes the model play `turns` and then end. */
export function scriptText(name: string, turns: readonly Turn[]): string {
  return `${MARK}${JSON.stringify({ name, turns })}`;
}

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  readonly tool_use_id?: string;
}

export interface Params {
  readonly max_tokens: number;
  readonly messages: readonly { readonly role: string; readonly content: readonly Block[] }[];
}

export interface ModelAnswer {
  readonly content: readonly object[];
  readonly stop_reason: string;
  readonly turn: number;
  readonly cut: boolean;
}

const BASE_MAX_TOKENS = 1024;

/** The answer to a request. `seed` names its calls. */
export function answerOf(params: Params, seed: string): ModelAnswer {
  const { messages } = params;
  const start = messages.findLastIndex((message) => message.content[0]?.text?.startsWith(MARK) === true);
  const input = messages[start]?.content[0]?.text;
  if (input === undefined) throw new Error('A request without a script.');
  const script = JSON.parse(input.slice(MARK.length)) as { name: string; turns: readonly Turn[] };
  const turn = messages.slice(start).filter((message) => message.role === 'assistant').length;
  const played = script.turns[turn];
  const text = { type: 'text', text: played?.text ?? `${script.name} turn ${turn}` };
  if (played === undefined) return { content: [text], stop_reason: 'end_turn', turn, cut: false };
  const calls = (played.calls ?? []).map((call, index) => ({
    type: 'tool_use',
    id: `toolu_${seed}_${index}`,
    name: call.tool,
    input: call.args,
  }));
  if (played.cut === true && params.max_tokens <= BASE_MAX_TOKENS)
    return { content: [text, ...calls], stop_reason: 'max_tokens', turn, cut: true };
  const stop_reason = played.stop ?? (calls.length > 0 ? 'tool_use' : 'end_turn');
  return { content: [text, ...calls], stop_reason, turn, cut: false };
}

/** What is wrong with the transcript of a request, or null: every call answered, once, right after it. */
export function transcriptFault(params: Params): string | null {
  const { messages } = params;
  for (const [index, message] of messages.entries()) {
    const uses = message.content.filter((block) => block.type === 'tool_use').map((block) => block.id);
    if (uses.length === 0) {
      const stray = message.content.filter((block) => block.type === 'tool_result');
      const before = messages[index - 1]?.content.some((block) => block.type === 'tool_use') ?? false;
      if (stray.length > 0 && !before) return `messages.${index}: results of calls that were not made`;
      continue;
    }
    const next = messages[index + 1];
    const results = next?.content
      .filter((block) => block.type === 'tool_result')
      .map((block) => block.tool_use_id);
    if (next?.role !== 'user' || JSON.stringify(results) !== JSON.stringify(uses))
      return `messages.${index}: calls ${JSON.stringify(uses)} answered by ${JSON.stringify(results ?? null)}`;
  }
  return messages.at(-1)?.content.some((block) => block.type === 'tool_use') === true
    ? 'the last call is open'
    : null;
}
