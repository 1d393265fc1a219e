import { answerRequest, messageJson } from '../../src/answer.ts';
import type { AnswerSettings } from '../../src/answer.ts';
import { contentHashOf } from '../../src/draws.ts';
import type { ContentBlock, Message, MessageParams } from '../../src/scripts/script.ts';
import { tokensOfBytes } from '../../src/tokens.ts';
import { usageOf } from '../../src/usage.ts';
import { paramsIssue } from '../../src/validate/params.ts';

export const settings: AnswerSettings = {
  seed: 'test',
  defaultScript: { script: 'obey', args: {} },
};

export const tools = [
  {
    name: 'look',
    input_schema: { type: 'object', properties: { where: { type: 'string' } }, required: ['where'] },
  },
  {
    name: 'add',
    input_schema: {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'integer' } },
      required: ['a', 'b'],
    },
  },
];

export interface Answered {
  content: ContentBlock[];
  stop_reason: string;
  stop_sequence: string | null;
  stop_details: unknown;
  usage: Record<string, unknown>;
}

/** Creates params with one user message. */
export function params(text: string, more: Partial<MessageParams> = {}): MessageParams {
  return {
    model: 'claude-opus-5',
    max_tokens: 1000,
    tools,
    messages: [{ role: 'user', content: text }],
    ...more,
  };
}

/**
 * Validates and answers a request like the simulator.
 * Throws: the refusal.
 */
export function answer(asked: MessageParams): Answered {
  const bytes = Buffer.from(JSON.stringify(asked));
  const issue = paramsIssue(JSON.parse(bytes.toString()), {
    endpoint: 'batch',
    version: '2026-10-21',
    betas: [],
    seed: settings.seed,
    paramsBytes: bytes.length,
  });
  if (issue !== undefined) throw new Error(`${issue.type}: ${issue.message}`);
  const answered = answerRequest(
    {
      params: asked,
      contentHash: contentHashOf(bytes),
      identity: 'x',
    },
    settings,
  );
  if (answered.kind === 'error') throw new Error(`${answered.type}: ${answered.message}`);
  const usage = usageOf(tokensOfBytes(bytes.length), answered.output_tokens);
  return JSON.parse(messageJson(answered, usage, 'batch')) as Answered;
}

type Executed = { content: string; is_error?: boolean };

/** Runs a conversation to its end or a number of turns, with tool calls executed by `run`; returns the answers. */
export function converse(
  asked: MessageParams,
  maxTurns = 8,
  run: (call: ContentBlock, turn: number) => Executed = () => ({ content: 'ok' }),
): Answered[] {
  const messages: Message[] = [...asked.messages];
  const answers: Answered[] = [];
  while (answers.length < maxTurns) {
    const next = answer({ ...asked, messages });
    answers.push(next);
    if (next.stop_reason !== 'tool_use' && next.stop_reason !== 'pause_turn') break;
    messages.push({ role: 'assistant', content: next.content });
    const turn = answers.length;
    const results = next.content
      .filter((block) => block.type === 'tool_use')
      .map((call): ContentBlock => ({
        type: 'tool_result',
        tool_use_id: call['id'] ?? '',
        ...run(call, turn),
      }));
    if (results.length > 0) messages.push({ role: 'user', content: results });
  }
  return answers;
}

export const callsOf = (answered: Answered | undefined): ContentBlock[] =>
  (answered?.content ?? []).filter((block) => block.type === 'tool_use');

export const textIn = (answered: Answered | undefined): string =>
  (answered?.content ?? [])
    .map((block) => (typeof block['text'] === 'string' ? block['text'] : ''))
    .join('\n');
