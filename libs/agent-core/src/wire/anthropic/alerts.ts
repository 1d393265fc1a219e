import type { ContentBlock } from '../../model/content.ts';
import { elementsOf } from './scan.ts';

const IS_SYSTEM = '{"role":"system"';

/**
 * What a user message shows of a system message: each text as Letta's system alert, without a time, so that requests that
 * are encoded again are the same.
 */
export function toAlerts(content: readonly ContentBlock[]): readonly ContentBlock[] {
  return content.map((block) =>
    block.type === 'text'
      ? { type: 'text', text: JSON.stringify({ type: 'system_alert', message: block['text'] }) }
      : block,
  );
}

/**
 * The JSON text of a messages array, put together as requests are, with system messages as user messages: earlier models
 * refuse the role, later ones take it in few places only. All else stays to the character.
 */
export function withAlerts(messagesJson: string): string {
  const messages = elementsOf(messagesJson).map((message) => {
    if (!message.startsWith(IS_SYSTEM)) return message;
    const { content } = JSON.parse(message) as { readonly content: readonly ContentBlock[] };
    return JSON.stringify({ role: 'user', content: toAlerts(content) });
  });
  return `[${messages.join(',')}]`;
}
