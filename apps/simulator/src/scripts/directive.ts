import type { MessageParams } from './script.ts';
import { textOf } from './turns.ts';

/** The script that a request selects, and its arguments. */
export interface Directive {
  readonly script: string;
  readonly args: Readonly<Record<string, string>>;
}

const OPENING = '⟦sim:';

/** Parses `<script>?key=value&key=value`; values with `&`, `%` or `+` are URL-encoded. */
export function parseDirective(text: string): Directive {
  const mark = text.indexOf('?');
  if (mark < 0) return { script: text.trim(), args: {} };
  const args: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(text.slice(mark + 1))) args[name] = value;
  return { script: text.slice(0, mark).trim(), args };
}

/**
 * Returns the directive of a request: a `metadata.user_id` that starts with `sim:`, else `⟦sim:…⟧` in the latest user message
 * with a directive, so that a conversation of several tasks follows its newest.
 */
export function directiveOf(params: MessageParams): Directive | undefined {
  const userId = (params['metadata'] as { user_id?: unknown } | null | undefined)?.user_id;
  if (typeof userId === 'string' && userId.startsWith('sim:')) return parseDirective(userId.slice(4));
  for (let i = params.messages.length - 1; i >= 0; i--) {
    const message = params.messages[i];
    if (message?.role !== 'user') continue;
    const text = textOf(message);
    const start = text.indexOf(OPENING);
    if (start < 0) continue;
    const end = text.indexOf('⟧', start);
    if (end > 0) return parseDirective(text.slice(start + OPENING.length, end));
  }
  return undefined;
}
