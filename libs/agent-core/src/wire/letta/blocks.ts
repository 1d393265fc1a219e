import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts';
import { isToolUse, type ContentBlock, type ToolUseBlock } from '../../model/content.ts';

/** A tool result, with its text taken out of the provider's form. */
export interface ReturnView {
  readonly tool_call_id: string;
  readonly status: 'success' | 'error';
  readonly text: string;
}

/** Source of an image: its data and media type, or its URL. */
export type ImageSource =
  | { readonly type: 'base64'; readonly media_type: string; readonly data: string }
  | { readonly type: 'url'; readonly url: string };

/** Letta's form of a provider block; `other` has no form in Letta. */
export type BlockForm =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'image'; readonly source: ImageSource }
  | { readonly kind: 'reasoning'; readonly reasoning: string; readonly signature: string | null }
  | { readonly kind: 'redacted_reasoning'; readonly data: string }
  | { readonly kind: 'omitted_reasoning'; readonly signature: string | null }
  | { readonly kind: 'call' }
  | { readonly kind: 'return'; readonly value: ReturnView }
  | { readonly kind: 'other' };

function stringOf(block: JsonObject, field: string): string | null {
  const value = block[field];
  return typeof value === 'string' ? value : null;
}

/**
 * Reads an untrusted block; a known type without its required members is `other`.
 * Calls are read from the whole content with `toolUsesOf`.
 */
export function formOf(block: ContentBlock): BlockForm {
  const other: BlockForm = { kind: 'other' };
  switch (block.type) {
    case 'text': {
      const text = stringOf(block, 'text');
      return text === null ? other : { kind: 'text', text };
    }
    case 'image':
      return isImageSource(block['source']) ? { kind: 'image', source: block['source'] } : other;
    case 'thinking': {
      const reasoning = stringOf(block, 'thinking');
      const signature = stringOf(block, 'signature');
      if (reasoning === null) return other;
      return reasoning === ''
        ? { kind: 'omitted_reasoning', signature }
        : { kind: 'reasoning', reasoning, signature };
    }
    case 'redacted_thinking': {
      const data = stringOf(block, 'data');
      return data === null ? other : { kind: 'redacted_reasoning', data };
    }
    case 'tool_use':
      return isToolUse(block) ? { kind: 'call' } : other;
    case 'tool_result': {
      const value = returnOf(block);
      return value === null ? other : { kind: 'return', value };
    }
    default:
      return other;
  }
}

function isImageSource(source: Json | undefined): source is ImageSource {
  if (!isJsonObject(source)) return false;
  const has = (field: string): boolean => stringOf(source, field) !== null;
  return source['type'] === 'url'
    ? has('url')
    : source['type'] === 'base64' && has('media_type') && has('data');
}

function returnOf(block: ContentBlock): ReturnView | null {
  const id = stringOf(block, 'tool_use_id');
  if (id === null) return null;
  return {
    tool_call_id: id,
    status: block['is_error'] === true ? 'error' : 'success',
    text: textOf(block['content']),
  };
}

/** Returns the text of a result; parts other than text become their JSON. */
function textOf(content: Json | undefined): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content
    .map((part: Json) => {
      const text = typeof part === 'object' && part !== null && 'text' in part ? part['text'] : undefined;
      return typeof text === 'string' ? text : JSON.stringify(part);
    })
    .join('\n');
}

/** Writes the arguments of a call as Letta's clients expect: JSON text. */
export function argumentsOf(use: ToolUseBlock): string {
  return JSON.stringify(use.input ?? {});
}

/** Returns the tool results of a row, in order. */
export function returnsOf(content: readonly ContentBlock[]): readonly ReturnView[] {
  return content.map(formOf).flatMap((form) => (form.kind === 'return' ? [form.value] : []));
}
