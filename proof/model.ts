/**
 * Simulates the model. It plays the script in the user's message: its answer depends on the request alone, so
 * a repeated request gets the same answer.
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

/** Builds an input that makes the model play `turns` and then end. */
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
  readonly tool_choice?: { readonly type: string; readonly name?: string };
  readonly system?: unknown;
  readonly tools?: unknown;
  readonly messages: readonly { readonly role: string; readonly content: readonly Block[] }[];
}

export interface ModelAnswer {
  readonly content: readonly object[];
  readonly stop_reason: string;
  readonly turn: number;
  readonly cut: boolean;
}

const BASE_MAX_TOKENS = 1024;

/** Answers a request. `seed` is part of the call ids. */
export function answerOf(params: Params, seed: string): ModelAnswer {
  const transcript = params.messages[0]?.content[0]?.text ?? '';
  if (TRANSCRIPT.test(transcript)) return summaryOf(transcript);
  const { name, turns, turn } = sceneOf(params);
  const forced = params.tool_choice?.type === 'tool' ? params.tool_choice.name : undefined;
  const due = forced ?? toolDemanded(params);
  const played = turns[turn];
  const text = { type: 'text', text: played?.text ?? `${name} turn ${turn}` };
  const asked = played?.calls ?? [];
  const calls = (
    due === undefined || asked.some(({ tool }) => tool === due)
      ? asked
      : [{ tool: due, args: { note: `${name} is asked for it in turn ${turn}` } }]
  ).map((call, index) => ({
    type: 'tool_use',
    id: `toolu_${seed}_${index}`,
    name: call.tool,
    input: call.args,
  }));
  if (played?.cut === true && params.max_tokens <= BASE_MAX_TOKENS)
    return { content: [text, ...calls], stop_reason: 'max_tokens', turn, cut: true };
  const stop_reason =
    due === undefined && played?.stop !== undefined
      ? played.stop
      : calls.length > 0
        ? 'tool_use'
        : 'end_turn';
  return { content: [text, ...calls], stop_reason, turn, cut: false };
}

interface Scene {
  readonly name: string;
  readonly turns: readonly Turn[];
  /** Number of turns played already. */
  readonly turn: number;
}

const SUMMARY = /script:(\{.*\})\nturn:(\d+)/;
const TRANSCRIPT = /<transcript>\n([^]*)\n<\/transcript>$/;

/** Finds the script and the turn: in the last input, or in a summary. */
function sceneOf({ messages }: Params): Scene {
  const start = messages.findLastIndex((message) => message.content[0]?.text?.startsWith(MARK) === true);
  const played = messages.slice(Math.max(0, start)).filter(({ role }) => role === 'assistant').length;
  const input = messages[start]?.content[0]?.text;
  if (input !== undefined) return { ...parseScript(input.slice(MARK.length)), turn: played };
  // A memory rewrite finds nothing to change.
  if (messages[0]?.content[0]?.text?.startsWith('<task>') === true)
    return { name: 'rewrite', turns: [], turn: played };
  const alert = JSON.parse(messages[0]?.content[0]?.text ?? '{}') as { readonly message?: string };
  const summary = SUMMARY.exec(alert.message ?? '');
  if (summary === null)
    throw new Error(`A request without a script: ${JSON.stringify(messages).slice(0, 1500)}`);
  return { ...parseScript(summary[1] ?? ''), turn: Number(summary[2]) + played };
}

function parseScript(text: string): Omit<Scene, 'turn'> {
  // The new messages of a night follow in further lines.
  return JSON.parse(text.split('\n', 1)[0] ?? '') as Omit<Scene, 'turn'>;
}

/** Finds a tool that the last message demands. */
function toolDemanded({ messages }: Params): string | undefined {
  const said = messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1);
  const texts = said.map(({ content }) => content[0]?.text ?? '').filter((text) => !text.startsWith(MARK));
  return /You must call (\w+)/.exec(texts.join('\n'))?.[1];
}

/** Summarises a transcript: the summary holds the script and the number of turns played. */
function summaryOf(request: string): ModelAnswer {
  const lines = (TRANSCRIPT.exec(request)?.[1] ?? '').split('\n\n');
  const at = lines.findLastIndex((line) => line.startsWith(`user: ${MARK}`));
  const before = SUMMARY.exec(request.slice(0, request.indexOf('<transcript>')));
  const script =
    lines[at]?.slice(`user: ${MARK}`.length).split('\n', 1)[0] ?? before?.[1] ?? '{"name":"none","turns":[]}';
  const earlier = at === -1 ? Number(before?.[2] ?? 0) : 0;
  const turn = earlier + lines.slice(at + 1).filter((line) => line.startsWith('assistant: ')).length;
  const text = `${MARK}${script}\nturn:${turn}`;
  return { content: [{ type: 'text', text }], stop_reason: 'end_turn', turn, cut: false };
}

/** The parts of a request that a provider's cache compares, without cache marks. */
export interface Prompt {
  readonly frame: string;
  /** A line for each message. */
  readonly messages: string;
  readonly is_summary: boolean;
}

/** Returns the prompt of a request. */
export function promptOf({ system, tools, messages }: Params): Prompt {
  const withoutMarks = (part: unknown): string =>
    JSON.stringify(part, (key, value: unknown) => (key === 'cache_control' ? undefined : value));
  return {
    frame: withoutMarks({ system, tools }),
    messages: messages.map((message) => `${withoutMarks(message)}\n`).join(''),
    is_summary: TRANSCRIPT.test(messages[0]?.content[0]?.text ?? ''),
  };
}

/** Checks that every call of a transcript is answered once, right after it. Returns the fault, or null. */
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
