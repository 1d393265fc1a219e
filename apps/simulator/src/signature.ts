import { createHash, createHmac } from 'node:crypto';
import type { ContentBlock, Message, MessageParams } from './scripts/script.ts';

/** A running fingerprint of the conversation before a thinking block, independent of message boundaries. */
export interface ConversationHash {
  /** Adds a block; thinking blocks are left out. */
  add(role: string, block: ContentBlock): void;
  /** Returns the present fingerprint. */
  value(): string;
}

/** Formats a value canonically: members sorted, without nulls and cache marks. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value)
    .filter(([name, member]) => member !== null && member !== undefined && name !== 'cache_control')
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`;
}

/** Starts a fingerprint with the system prompt and the tools in any order. */
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

/** Adds all blocks of a message. */
export function addMessage(conversation: ConversationHash, message: Message): void {
  if (typeof message.content === 'string')
    conversation.add(message.role, { type: 'text', text: message.content });
  else for (const block of message.content) conversation.add(message.role, block);
}

/** True for a thinking block, which has a signature. */
export function isThinking(block: ContentBlock): boolean {
  return block.type === 'thinking' || block.type === 'redacted_thinking';
}

const mac = (seed: string, purpose: string, text: string): string =>
  createHmac('sha256', `simulator ${seed}`).update(`${purpose}\n${text}`).digest('base64').slice(0, 28);

const MAC_LENGTH = 28;

/** Returns the signed part of a thinking block: its text, or the nonce of a redacted block. */
const signedText = (block: ContentBlock): string =>
  block.type === 'thinking' ? JSON.stringify(block['thinking'] ?? null) : 'redacted';

/** The context that a thinking block is bound to, besides its text. */
export interface ThoughtBinding {
  readonly model: string;
  /** Fingerprint of the conversation before it. */
  readonly conversation: string;
  /** Signature of the thinking block before it; undefined for the first. */
  readonly previous: string | undefined;
}

/** Signs a thinking block: its text, its model and conversation, and the thinking block before it. */
export function signThinking(seed: string, binding: ThoughtBinding, block: ContentBlock): string {
  const { model, conversation, previous } = binding;
  return (
    mac(seed, 'block', signedText(block)) +
    mac(seed, 'conversation', `${model}\n${conversation}`) +
    mac(seed, 'previous', previous ?? '')
  );
}

/** Returns the signature of a thinking block. */
export function signatureOf(block: ContentBlock): string | undefined {
  const signature = block.type === 'thinking' ? block['signature'] : block['data'];
  return typeof signature === 'string' ? signature : undefined;
}

/** The result of the check of a returned thinking block. */
export type SignatureCheck = 'intact' | 'modified' | 'foreign';

/**
 * Checks a returned thinking block. `modified`: text or signature are not ours. `foreign`: another model, or a change in the
 * conversation before it. The oldest thinking blocks may be left out; a gap between later ones is a change.
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
