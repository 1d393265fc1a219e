import type { LettaMessage } from '@nightshift/client';

/** A tool call with its result; null until it has one. */
export interface CallEntry {
  readonly kind: 'call';
  readonly key: string;
  readonly stepId: string | null;
  readonly name: string;
  readonly arguments: string;
  readonly result: CallResult | null;
}

interface CallResult {
  readonly text: string;
  readonly isError: boolean;
  /** Null without output. */
  readonly stdout: string | null;
  readonly stderr: string | null;
}

/** A text of the conversation. */
export interface TextEntry {
  readonly kind: 'user' | 'assistant' | 'system' | 'thought';
  readonly key: string;
  readonly stepId: string | null;
  readonly text: string;
  readonly at: string;
}

export type Entry = CallEntry | TextEntry;

/** Arranges messages for reading: each tool call has its result beside it. */
export function entriesOf(messages: readonly LettaMessage[]): readonly Entry[] {
  const results = new Map(
    messages
      .filter((message) => message.message_type === 'tool_return_message')
      .flatMap(({ tool_returns }) => tool_returns)
      .map(({ tool_call_id, tool_return, status, stdout, stderr }): readonly [string, CallResult] => [
        tool_call_id,
        {
          text: tool_return,
          isError: status === 'error',
          stdout: stdout?.join('') ?? null,
          stderr: stderr?.join('') ?? null,
        },
      ]),
  );
  return messages.flatMap((message): readonly Entry[] => {
    const { step_id: stepId, otid, date: at } = message;
    const text = (kind: TextEntry['kind'], value: string): readonly Entry[] => [
      { kind, key: otid, stepId, text: value, at },
    ];
    switch (message.message_type) {
      case 'tool_call_message':
        return message.tool_calls.map((call) => ({
          kind: 'call',
          key: `${otid} ${call.tool_call_id}`,
          stepId,
          name: call.name,
          arguments: call.arguments,
          result: results.get(call.tool_call_id) ?? null,
        }));
      case 'tool_return_message':
        return [];
      case 'user_message':
        return text('user', textOf(message.content));
      case 'assistant_message':
        return text('assistant', message.content);
      case 'system_message':
        return text('system', message.content);
      case 'reasoning_message':
        return text('thought', message.reasoning);
      case 'hidden_reasoning_message':
        return text('thought', `The provider keeps this thought to itself (${message.state}).`);
    }
  });
}

type Content = Extract<LettaMessage, { readonly message_type: 'user_message' }>['content'];

function textOf(content: Content): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '[image]')).join('\n');
}
