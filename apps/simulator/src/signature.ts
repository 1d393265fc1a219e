import { createHash, createHmac } from 'node:crypto';
import type { ContentBlock, Message } from './scripts/script.ts';

/** The running fingerprint of a conversation, block by block, whatever the boundaries of its messages. */
export interface ConversationHash {
  add(role: string, block: ContentBlock): void;
  /** The fingerprint of what was added so far. */
  value(): string;
}

/** The same text for the same content: members sorted, nulls and cache marks left out. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value)
    .filter(([name, member]) => member !== null && member !== undefined && name !== 'cache_control')
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`;
}

/** An empty conversation. */
export function createConversationHash(): ConversationHash {
  const hash = createHash('sha256');
  return {
    add: (role, block) => {
      hash.update(`${role} ${canonical(block)}\n`);
    },
    value: () => hash.copy().digest('base64'),
  };
}

/** Adds the whole of a message to a conversation. */
export function addMessage(conversation: ConversationHash, message: Message): void {
  if (typeof message.content === 'string')
    conversation.add(message.role, { type: 'text', text: message.content });
  else for (const block of message.content) conversation.add(message.role, block);
}

/** Whether a block carries thoughts and therefore a signature. */
export function isThinking(block: ContentBlock): boolean {
  return block.type === 'thinking' || block.type === 'redacted_thinking';
}

const mac = (seed: string, purpose: string, text: string): string =>
  createHmac('sha256', `simulator ${seed}`).update(`${purpose}\n${text}`).digest('base64').slice(0, 28);

const BLOCK_MAC_LENGTH = 28;

/** What was signed of a thinking block: its text, or for a redacted one a nonce that stands before the signature. */
const signedText = (block: ContentBlock): string =>
  block.type === 'thinking' ? JSON.stringify(block['thinking'] ?? null) : 'redacted';

/** The signature of a thinking block, bound to its text, and apart from that to the model and what came before it. */
export function signThinking(seed: string, model: string, conversation: string, block: ContentBlock): string {
  return mac(seed, 'block', signedText(block)) + mac(seed, 'conversation', `${model}\n${conversation}`);
}

/** How a thinking block that comes back relates to what was signed. */
export type SignatureCheck = 'intact' | 'modified' | 'foreign';

/** `modified`: the text or the signature is not ours. `foreign`: it is, but from another model or conversation. */
export function checkThinking(
  seed: string,
  model: string,
  conversation: string,
  block: ContentBlock,
): SignatureCheck {
  const signature = block.type === 'thinking' ? block['signature'] : block['data'];
  if (typeof signature !== 'string') return 'modified';
  if (signature.slice(0, BLOCK_MAC_LENGTH) !== mac(seed, 'block', signedText(block))) return 'modified';
  return signature === signThinking(seed, model, conversation, block) ? 'intact' : 'foreign';
}
