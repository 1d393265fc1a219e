import type { StepRequest } from '@nightshift/client';

/** A text of a request, as a person reads it. */
export interface RequestText {
  readonly name: string;
  readonly text: string;
  readonly isCode: boolean;
}

interface Block {
  readonly type?: unknown;
  readonly text?: unknown;
}
interface Message {
  readonly role?: unknown;
  readonly content?: readonly Block[];
}

/** Returns the texts of a request in the order in which the model reads them, then its settings. */
export function textsOf({ request, parts }: StepRequest): readonly RequestText[] {
  const { tools, system, messages, ...settings } = request as {
    readonly tools?: unknown;
    readonly system?: readonly Block[];
    readonly messages?: readonly Message[];
  };
  const has = (name: StepRequest['parts'][number]['part']): boolean =>
    parts.some(({ part, bytes }) => part === name && bytes > 0);
  // The memory is the last block of the system prompt, the summary the first message.
  const fixed = has('memory') ? system?.slice(0, -1) : system;
  const memory = has('memory') ? system?.slice(-1) : [];
  const summary = has('summary') ? messages?.slice(0, 1) : [];
  const said = has('summary') ? messages?.slice(1) : messages;
  return [
    { name: 'Tools', text: tools === undefined ? '' : jsonOf(tools), isCode: true },
    { name: 'System prompt', text: blocksOf(fixed), isCode: false },
    { name: 'Memory', text: blocksOf(memory), isCode: false },
    { name: 'Summary of earlier messages', text: messagesOf(summary), isCode: false },
    { name: 'Messages', text: messagesOf(said), isCode: false },
    { name: 'Settings', text: jsonOf(settings), isCode: true },
  ].filter(({ text }) => text !== '');
}

const jsonOf = (value: unknown): string => JSON.stringify(value, null, 2);

const blocksOf = (blocks: readonly Block[] = []): string =>
  blocks
    .map((block) => (block.type === 'text' && typeof block.text === 'string' ? block.text : jsonOf(block)))
    .join('\n\n');

const messagesOf = (messages: readonly Message[] = []): string =>
  messages.map(({ role, content }) => `── ${String(role)}\n${blocksOf(content)}`).join('\n\n');
