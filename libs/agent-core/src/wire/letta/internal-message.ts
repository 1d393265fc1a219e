import { messageUuid, stepUuid, toWireId } from '../../base/ids.ts';
import { toolUsesOf, type ContentBlock } from '../../model/content.ts';
import { argumentsOf, formOf, returnsOf, type ImageSource } from './blocks.ts';
import { outputsOf, type ReturnedCalls, type StoredMessage } from './stored-message.ts';
import { packToolReturn } from './tool-return.ts';

/** A content part of an internal message. */
export type InternalContentPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly source: ImageSource }
  | {
      readonly type: 'reasoning';
      readonly is_native: true;
      readonly reasoning: string;
      readonly signature: string | null;
    }
  | { readonly type: 'redacted_reasoning'; readonly data: string }
  | { readonly type: 'omitted_reasoning'; readonly signature: string | null };

/** A message of `batches.messages.list`; every key is always present. */
export interface InternalMessage {
  readonly id: string;
  readonly role: 'assistant' | 'user' | 'tool' | 'system';
  readonly agent_id: string;
  readonly content: readonly InternalContentPart[];
  /** Blocks without a part in Letta, as the provider sent them. Not in Letta. */
  readonly provider_content: readonly ContentBlock[];
  readonly tool_calls:
    | readonly {
        readonly id: string;
        readonly type: 'function';
        readonly function: { readonly name: string; readonly arguments: string };
      }[]
    | null;
  readonly tool_call_id: string | null;
  readonly tool_returns: readonly {
    readonly tool_call_id: string;
    readonly status: 'success' | 'error';
    readonly func_response: string;
    readonly stdout: readonly string[] | null;
    readonly stderr: readonly string[] | null;
  }[];
  readonly name: string | null;
  /** A request of a batch: the run id, common to a request's input and answers. */
  readonly batch_item_id: string | null;
  readonly model: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly created_by_id: null;
  readonly last_updated_by_id: null;
  readonly otid: string | null;
  readonly run_id: string | null;
  readonly step_id: string | null;
  readonly group_id: null;
  readonly sender_id: null;
  readonly conversation_id: string;
  readonly is_err: null;
  readonly approval_request_id: null;
  readonly approve: null;
  readonly denial_reason: null;
  readonly approvals: readonly [];
}

/**
 * Converts a stored row to Letta's internal form.
 * A row is one message, so that ids stay unique and a page can end at any row. The results of parallel calls are a
 * message of role `tool` with all `tool_returns`; its `tool_call_id` and `name` are the first call's. Call ids are the
 * provider's.
 * `answered` holds the calls that a `tool` message answers; without it `name`, `stdout` and `stderr` are null.
 */
export function toInternalMessage(
  message: StoredMessage,
  answered: ReturnedCalls = new Map(),
): InternalMessage {
  const calls = message.role === 'assistant' ? toolUsesOf(message.content) : [];
  const returns = message.role === 'user' ? returnsOf(message.content) : [];
  const [firstReturn] = returns;
  const name =
    firstReturn === undefined
      ? message.name
      : (answered.get(firstReturn.tool_call_id)?.tool_name ?? message.name);
  return {
    id: toWireId('message', messageUuid(message.conversation_id, message.seq)),
    role: firstReturn === undefined ? message.role : 'tool',
    agent_id: toWireId('agent', message.agent_id),
    content: contentParts(message),
    provider_content: message.content.filter((block) => formOf(block).kind === 'other'),
    tool_calls:
      calls.length === 0
        ? null
        : calls.map((call) => ({
            id: call.id,
            type: 'function',
            function: { name: call.name, arguments: argumentsOf(call) },
          })),
    tool_call_id: calls[0]?.id ?? firstReturn?.tool_call_id ?? null,
    tool_returns: returns.map((value) => ({
      tool_call_id: value.tool_call_id,
      status: value.status,
      func_response: packToolReturn(value, message.created_at),
      ...outputsOf(answered.get(value.tool_call_id)),
    })),
    name,
    batch_item_id: message.run_id === null ? null : toWireId('batch_item', message.run_id),
    model: message.role === 'assistant' ? message.model : null,
    created_at: message.created_at,
    updated_at: message.created_at,
    created_by_id: null,
    last_updated_by_id: null,
    otid: message.otid,
    run_id: message.run_id === null ? null : toWireId('run', message.run_id),
    step_id: message.step === null ? null : toWireId('step', stepUuid(message.step)),
    group_id: null,
    sender_id: null,
    conversation_id: toWireId('conversation', message.conversation_id),
    is_err: null,
    approval_request_id: null,
    approve: null,
    denial_reason: null,
    approvals: [],
  };
}

/** Results also stand in the content, packaged, as in Letta; calls have their own field. */
function contentParts(message: StoredMessage): readonly InternalContentPart[] {
  return message.content.flatMap((block): readonly InternalContentPart[] => {
    const form = formOf(block);
    switch (form.kind) {
      case 'text':
        return [{ type: 'text', text: form.text }];
      case 'image':
        return [{ type: 'image', source: form.source }];
      case 'reasoning':
        return [{ type: 'reasoning', is_native: true, reasoning: form.reasoning, signature: form.signature }];
      case 'redacted_reasoning':
        return [{ type: 'redacted_reasoning', data: form.data }];
      case 'omitted_reasoning':
        return [{ type: 'omitted_reasoning', signature: form.signature }];
      case 'return':
        return [{ type: 'text', text: packToolReturn(form.value, message.created_at) }];
      case 'call':
      case 'other':
        return [];
    }
  });
}
