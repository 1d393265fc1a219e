import type { ContentBlock, Message, MessageParams } from './script.ts';

/** Returns the text of a message: its string, or its text blocks joined by line breaks. */
export function textOf(message: Message): string {
  const { content } = message;
  if (typeof content === 'string') return unwrap(content);
  let text = '';
  for (const block of content) {
    if (block.type !== 'text' || typeof block['text'] !== 'string') continue;
    text += text === '' ? unwrap(block['text']) : `\n${unwrap(block['text'])}`;
  }
  return text;
}

/** Unwraps a user text from the JSON envelope of some agents, whose `message` holds it. */
function unwrap(text: string): string {
  if (!text.startsWith('{"type":')) return text;
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    return typeof message === 'string' ? message : text;
  } catch {
    return text;
  }
}

/** Returns the blocks of a message; a string is one text block. */
export function blocksOf(message: Message): readonly ContentBlock[] {
  return typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
}

/** The current task: its text and its progress. */
export interface Task {
  readonly text: string;
  /** Number of assistant messages since its start. */
  readonly turn: number;
  /** Messages after the message with `text`. */
  readonly messages: readonly Message[];
}

const holdsToolResult = (message: Message): boolean =>
  Array.isArray(message.content) && message.content.some((block) => block.type === 'tool_result');

/**
 * Finds the current task: the last user message with text and without tool results. A message with both starts a task only if
 * its text is a plan or a directive, since agents add remarks to tool results. A report of changed memory is no task.
 */
export function taskOf(params: MessageParams): Task {
  const { messages } = params;
  let turn = 0;
  for (let i = messages.length - 1; i >= 0; i--) {
    const message = messages[i];
    if (message === undefined) continue;
    if (message.role === 'assistant') turn++;
    if (message.role !== 'user') continue;
    const text = textOf(message);
    if (text === '' || text.startsWith('<memory_update>')) continue;
    if (holdsToolResult(message) && !text.includes('⟦sim:') && !/^\s*\{\s*"tool"/m.test(text)) continue;
    return { text, turn, messages: messages.slice(i + 1) };
  }
  return { text: '', turn, messages };
}

/** Returns the tool results after the last answer. */
export function lastToolResults({ messages }: MessageParams): readonly ContentBlock[] {
  const from = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
  return messages
    .slice(from)
    .flatMap((message) => blocksOf(message).filter(({ type }) => type === 'tool_result'));
}

/** Returns the client tools, which the client executes. */
export function clientTools(params: MessageParams): readonly { name: string; input_schema?: unknown }[] {
  return (params.tools ?? []).filter((tool) => tool['type'] === undefined || tool['type'] === 'custom');
}
