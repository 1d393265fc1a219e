import { createHash, createHmac } from 'node:crypto';
import type { ContentBlock, Message, MessageParams } from './scripts/script.ts';

/** The running fingerprint of what thoughts were made after, block by block, whatever the boundaries of messages. */
export interface ConversationHash {
  /** Adds a block; thinking blocks are not part of what later ones are bound to. */
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

/** The beginning of a conversation: the system prompt, and the tools in whatever order. */
export function createConversationHash({ system, tools = [] }: MessageParams): ConversationHash {
  const hash = createHash('sha256');
  const prompt = typeof system === 'string' ? [{ type: 'text', text: system }] : (system ?? []);
  hash.update(`system ${canonical(prompt)}\ntools ${tools.map(canonical).sort().join()}\n`);
  return {
    add: (role, block) => {
      if (!isThinking(block)) hash.update(`${role} ${canonical(block)}\n`);
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

const MAC_LENGTH = 28;

/** What was signed of a thinking block: its text, or for a redacted one a nonce that stands before the signature. */
const signedText = (block: ContentBlock): string =>
  block.type === 'thinking' ? JSON.stringify(block['thinking'] ?? null) : 'redacted';

/** What a thinking block is bound to besides its text. */
export interface ThoughtBinding {
  readonly model: string;
  /** The fingerprint of what came before it. */
  readonly conversation: string;
  /** The signature of the thinking block before it; undefined for the first of a request. */
  readonly previous: string | undefined;
}

/** The signature of a thinking block: of its text, of the model and what came before it, and of the thought before it. */
export function signThinking(seed: string, binding: ThoughtBinding, block: ContentBlock): string {
  const { model, conversation, previous } = binding;
  return (
    mac(seed, 'block', signedText(block)) +
    mac(seed, 'conversation', `${model}\n${conversation}`) +
    mac(seed, 'previous', previous ?? '')
  );
}

/** The signature that a thinking block carries. */
export function signatureOf(block: ContentBlock): string | undefined {
  const signature = block.type === 'thinking' ? block['signature'] : block['data'];
  return typeof signature === 'string' ? signature : undefined;
}

/** How a thinking block that comes back relates to what was signed. */
export type SignatureCheck = 'intact' | 'modified' | 'foreign';

/**
 * `modified`: the text or the signature is not ours. `foreign`: it is, but from another model, or something before it has
 * changed. The oldest thoughts may be left out; a gap between later ones is a change.
 */
export function checkThinking(seed: string, binding: ThoughtBinding, block: ContentBlock): SignatureCheck {
  const signature = signatureOf(block);
  if (signature?.slice(0, MAC_LENGTH) !== mac(seed, 'block', signedText(block))) return 'modified';
  const signed = signThinking(seed, binding, block);
  const checked = binding.previous === undefined ? 2 * MAC_LENGTH : signed.length;
  return signature.slice(0, checked) === signed.slice(0, checked) && signature.length === signed.length
    ? 'intact'
    : 'foreign';
}
