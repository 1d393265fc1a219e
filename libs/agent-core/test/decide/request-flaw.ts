import type { ContentBlock } from '../../src/model/content.ts';
import type { ShownMessage } from './fleet.ts';

/** Returns why the provider would refuse a request with these messages; null if it would not. */
export function flawOf(messages: readonly ShownMessage[]): string | null {
  if (messages[0]?.role !== 'user') return 'the first message is not of the user';
  for (const [index, { role, content, paused }] of messages.entries()) {
    const next = messages[index + 1];
    const asked = new Set(content.filter(({ type }) => type === 'tool_use').map((block) => block['id']));
    const results = (next?.content ?? []).filter(({ type }) => type === 'tool_result');
    const answered = results.map((block) => block['tool_use_id']);
    // Adjacent user messages are read as one message; only a paused answer may be continued.
    if (next?.role === role && role === 'assistant' && !(paused && asked.size === 0))
      return `two messages of the ${role}`;
    if (next !== undefined && answered.length !== asked.size) return 'calls and results differ in number';
    if (!answered.every((id) => asked.has(id))) return 'a result answers no call';
  }
  return null;
}

/** Adds the input of the conversation's next run; the provider joins adjacent messages of a role. */
export function withNextInput(messages: readonly ShownMessage[]): readonly ShownMessage[] {
  const input: ContentBlock = { type: 'text', text: 'the next task' };
  const last = messages.at(-1);
  return last?.role === 'user'
    ? [...messages.slice(0, -1), { ...last, content: [...last.content, input] }]
    : [...messages, { role: 'user', content: [input], paused: false }];
}
