import type { ReturnedCall, StoredMessage } from '../../src/wire/letta/stored-message.ts';

export const conversationId = '0190a000-0000-7000-8000-000080000000';
export const runId = '0190a000-0000-7000-8000-000001000000';

/** Makes a stored row with defaults for the rest. */
export function makeMessage(content: readonly object[], rest: Partial<StoredMessage> = {}): StoredMessage {
  return {
    conversation_id: conversationId,
    seq: 5,
    agent_id: '0190a000-0000-7000-8000-00000000000a',
    run_id: runId,
    step: { run_id: runId, number: 2, attempt: 1 },
    role: 'assistant',
    content: content as StoredMessage['content'],
    model: 'claude-x',
    otid: null,
    name: null,
    said_at: null,
    created_at: '2026-11-20T09:05:09.123456Z',
    ...rest,
  };
}

export const thinking = { type: 'thinking', thinking: 'hm', signature: 'sig' };
export const omitted = { type: 'thinking', thinking: '', signature: 'sig' };
export const redacted = { type: 'redacted_thinking', data: 'xxx' };
export const search = { type: 'server_tool_use', id: 's', name: 'web_search', input: {} };
export const text = (value: string) => ({ type: 'text', text: value });
export const use = (id: string, name: string, input: unknown) => ({ type: 'tool_use', id, name, input });
export const result = (id: string, content: unknown, rest: object = {}) => ({
  type: 'tool_result',
  tool_use_id: id,
  content,
  ...rest,
});

/** Blocks without the required members of their type, and blocks of unknown types. */
export const strangeBlocks: readonly object[] = [
  { type: 'text' },
  { type: 'text', text: 1 },
  { type: 'image' },
  { type: 'thinking' },
  { type: 'redacted_thinking' },
  { type: 'tool_use', id: 1 },
  { type: 'tool_result' },
  { type: 'from_the_future', nested: { deep: [1] } },
  { type: '__proto__' },
  search,
];

/** A call of a tool with a result, without output by default. */
export function called(tool_name: string, output: Partial<ReturnedCall> = {}): ReturnedCall {
  return { tool_name, stdout: null, stderr: null, ...output };
}
