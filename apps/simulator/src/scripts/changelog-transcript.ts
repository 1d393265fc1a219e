import type { ContentBlock, JsonValue, Message } from './script.ts';

/** A tool call of the conversation with its outcome; without one while nobody has answered it. */
export interface PastCall {
  readonly name: string;
  readonly label: string | undefined;
  readonly outcome: { readonly failed: boolean; readonly text: string } | undefined;
}

/** The text of a user message; of one that was packed as `{"message": …}`, the message in it. */
export function textOf(message: Message | undefined): string {
  if (message?.role !== 'user') return '';
  const blocks =
    typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
  const texts = blocks.filter(({ type }) => type === 'text').map(({ text }) => asText(text));
  return texts.map(unpack).join('\n');
}

function unpack(text: string): string {
  if (!text.startsWith('{')) return text;
  const packed = parseObject(text)?.message;
  return typeof packed === 'string' ? packed : text;
}

/** The tool calls of these messages in their order. */
export function readCalls(messages: readonly Message[]): PastCall[] {
  const blocks = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content));
  const results = new Map(
    blocks.filter(({ type }) => type === 'tool_result').map((block) => [asText(block.tool_use_id), block]),
  );
  return blocks
    .filter(({ type }) => type === 'tool_use')
    .map((block) => {
      const input = block.input as Record<string, unknown>;
      const label = input.label ?? input.target_block_label;
      return {
        name: asText(block.name),
        label: typeof label === 'string' ? label : undefined,
        outcome: readOutcome(results.get(asText(block.id))),
      };
    });
}

/** A result failed when it says so, be it by `is_error` or as `{"status": "Failed"}`. */
function readOutcome(result: ContentBlock | undefined): PastCall['outcome'] {
  if (result === undefined) return undefined;
  const { content } = result;
  const parts = Array.isArray(content)
    ? (content as ContentBlock[])
    : [{ type: 'text', text: asText(content) }];
  const text = parts.map((part) => asText(part.text)).join('\n');
  const packed = parseObject(text);
  const failed = result.is_error === true || packed?.status === 'Failed';
  const message = packed !== undefined && 'status' in packed ? packed.message : undefined;
  return {
    failed,
    text: message === undefined ? text : typeof message === 'string' ? message : JSON.stringify(message),
  };
}

/** The object that a text is in JSON; `undefined` when it is none. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function asText(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}
