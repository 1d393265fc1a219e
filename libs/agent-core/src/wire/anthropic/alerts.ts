import type { ContentBlock } from '../../model/content.ts';
import { elementsOf } from './scan.ts';

const IS_SYSTEM = '{"role":"system"';

/**
 * Shows a system message in a user message: each text as Letta's system alert, without a time.
 * A repeated encoding is equal.
 */
export function toAlerts(content: readonly ContentBlock[]): readonly ContentBlock[] {
  return content.map((block) =>
    block.type === 'text'
      ? { type: 'text', text: JSON.stringify({ type: 'system_alert', message: block['text'] }) }
      : block,
  );
}

/**
 * Turns system messages of a messages array, in the form of requests, into user messages.
 * Earlier models refuse the role; later models take it in few places only. All else stays unchanged to the character.
 */
export function withAlerts(messagesJson: string): string {
  const messages = elementsOf(messagesJson).map((message) => {
    if (!message.startsWith(IS_SYSTEM)) return message;
    const { content } = JSON.parse(message) as { readonly content: readonly ContentBlock[] };
    return JSON.stringify({ role: 'user', content: toAlerts(content) });
  });
  return `[${messages.join(',')}]`;
}
