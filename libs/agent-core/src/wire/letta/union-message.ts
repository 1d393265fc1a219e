import { messageUuid, stepUuid, toWireId } from '../../base/ids.ts';
import { isJsonObject } from '../../base/json.ts';
import { toolUsesOf, type ToolUseBlock } from '../../model/content.ts';
import {
  argumentsOf,
  formOf,
  returnsOf,
  type BlockForm,
  type ImageSource,
  type ReturnView,
} from './blocks.ts';
import { outputsOf, type ReturnedCalls, type StoredMessage } from './stored-message.ts';
import { toLettaDate } from './tool-return.ts';

/** Members of all messages of the union. */
interface Common {
  readonly id: string;
  readonly date: string;
  readonly name: string | null;
  /** Unique among the items of a stored message, unlike `id`. */
  readonly otid: string;
  readonly sender_id: null;
  readonly step_id: string | null;
  readonly run_id: string | null;
  /** It came in without a run. Not in Letta. */
  readonly appended: boolean;
  readonly is_err: null;
  readonly seq_id: null;
}

interface UserContentText {
  readonly type: 'text';
  readonly text: string;
}
interface UserContentImage {
  readonly type: 'image';
  readonly source: ImageSource;
}

export interface ToolCallItem {
  readonly name: string;
  readonly arguments: string;
  readonly tool_call_id: string;
}

export interface ToolReturnItem {
  readonly type: 'tool';
  readonly tool_return: string;
  readonly status: 'success' | 'error';
  readonly tool_call_id: string;
  readonly stdout: readonly string[] | null;
  readonly stderr: readonly string[] | null;
}

/** The part of a union message that depends on its type. */
type Body =
  | { readonly message_type: 'system_message'; readonly content: string }
  | {
      readonly message_type: 'user_message';
      readonly content: string | readonly (UserContentText | UserContentImage)[];
    }
  | { readonly message_type: 'assistant_message'; readonly content: string }
  | {
      readonly message_type: 'reasoning_message';
      readonly reasoning: string;
      readonly source: 'reasoner_model';
      readonly signature: string | null;
    }
  | {
      readonly message_type: 'hidden_reasoning_message';
      readonly state: 'redacted' | 'omitted';
      readonly hidden_reasoning: string | null;
    }
  | {
      readonly message_type: 'tool_call_message';
      readonly tool_call: ToolCallItem;
      readonly tool_calls: readonly ToolCallItem[];
    }
  | (Omit<ToolReturnItem, 'type'> & {
      readonly message_type: 'tool_return_message';
      readonly tool_returns: readonly ToolReturnItem[];
    });

/** A message of `agents.messages.list` and `runs.messages.list`, told apart by `message_type`. */
export type LettaMessage = Common & Body;

export interface UnionOptions {
  /**
   * Shows a call of the tool that speaks to the user as its text, and hides its result.
   * Default: true, as in Letta.
   */
  readonly use_assistant_message?: boolean;
  /**
   * That tool.
   * Default: `send_message`.
   */
  readonly assistant_message_tool_name?: string;
  /**
   * Its argument with the text.
   * Default: `message`.
   */
  readonly assistant_message_tool_kwarg?: string;
  /** Calls whose results are in a row: their output, and their tools, to recognise results of the tool that speaks. */
  readonly returned_calls?: ReturnedCalls;
}

/** The tool that speaks to the user, and its argument with the text. */
interface Speaker {
  readonly tool: string;
  readonly argument: string;
}
/** Items of a message with an otid of their own: seven bits of its uuid. */
const ITEM_MAX = 127;

/**
 * Expands a stored row into Letta's messages, all with the row's id.
 * Thinking and text come in order, then a message of all calls. Blocks without a form in Letta are left out. An empty
 * text is shown only where it is alone, so that a row with content never vanishes. The exception is an answer to the
 * speaking tool alone. Items beyond the 128th share the last otid.
 */
export function toLettaMessages(message: StoredMessage, options: UnionOptions = {}): readonly LettaMessage[] {
  const answered: ReturnedCalls = options.returned_calls ?? new Map();
  const speaker = speakerOf(options);
  const common = {
    id: toWireId('message', messageUuid(message.conversation_id, message.seq)),
    date: toLettaDate(message.said_at ?? message.created_at),
    sender_id: null,
    step_id: message.step === null ? null : toWireId('step', stepUuid(message.step)),
    run_id: message.run_id === null ? null : toWireId('run', message.run_id),
    appended: message.run_id === null,
    is_err: null,
    seq_id: null,
  };
  return bodiesOf(message, speaker, answered).map((body, index) => ({
    ...common,
    name: nameOf(message, body, answered),
    otid:
      (keepsOtid(message, body, index) ? message.otid : null) ??
      messageUuid(message.conversation_id, message.seq, Math.min(index, ITEM_MAX)),
    ...body,
  }));
}

/** Whether an item has the `otid` of its sender: the only item of an input, or the first of an appended message. */
function keepsOtid({ run_id }: StoredMessage, { message_type }: Body, index: number): boolean {
  return message_type === 'user_message' || (run_id === null && index === 0);
}

/** Returns the speaking tool; null where its calls are shown as any other. */
function speakerOf(options: UnionOptions): Speaker | null {
  if (options.use_assistant_message === false) return null;
  const { assistant_message_tool_name: tool, assistant_message_tool_kwarg: argument } = options;
  return { tool: tool ?? 'send_message', argument: argument ?? 'message' };
}

function nameOf(message: StoredMessage, body: Body, answered: ReturnedCalls): string | null {
  if (body.message_type !== 'tool_return_message') return message.name;
  return answered.get(body.tool_call_id)?.tool_name ?? message.name;
}

function bodiesOf(message: StoredMessage, speaker: Speaker | null, answered: ReturnedCalls): readonly Body[] {
  const forms = message.content.map(formOf);
  switch (message.role) {
    case 'system':
      return [{ message_type: 'system_message', content: textsOf(forms).join('\n') }];
    case 'user':
      return userBodies(message, forms, speaker, answered);
    case 'assistant':
      return assistantBodies(message, forms, speaker);
  }
}

function textsOf(forms: readonly BlockForm[]): readonly string[] {
  return forms.flatMap((form) => (form.kind === 'text' ? [form.text] : []));
}

function userBodies(
  message: StoredMessage,
  forms: readonly BlockForm[],
  speaker: Speaker | null,
  answered: ReturnedCalls,
): readonly Body[] {
  const returns = returnsOf(message.content);
  const shown =
    speaker === null
      ? returns
      : returns.filter((value) => answered.get(value.tool_call_id)?.tool_name !== speaker.tool);
  const [first, ...rest] = shown.map((value) => toReturnItem(value, answered));
  const bodies: Body[] = [];
  if (first !== undefined) {
    const { type: _type, ...ofFirst } = first;
    bodies.push({ message_type: 'tool_return_message', ...ofFirst, tool_returns: [first, ...rest] });
  }

  const parts = forms.flatMap((form): readonly (UserContentText | UserContentImage)[] => {
    if (form.kind === 'text') return [{ type: 'text', text: form.text }];
    return form.kind === 'image' ? [{ type: 'image', source: form.source }] : [];
  });
  if (parts.length > 0 || returns.length === 0) {
    const [only] = parts;
    const content = only === undefined ? '' : parts.length === 1 && only.type === 'text' ? only.text : parts;
    bodies.push({ message_type: 'user_message', content });
  }
  return bodies;
}

function toReturnItem(value: ReturnView, answered: ReturnedCalls): ToolReturnItem {
  return {
    type: 'tool',
    tool_return: value.text,
    status: value.status,
    tool_call_id: value.tool_call_id,
    ...outputsOf(answered.get(value.tool_call_id)),
  };
}

function assistantBodies(
  message: StoredMessage,
  forms: readonly BlockForm[],
  speaker: Speaker | null,
): readonly Body[] {
  const bodies: Body[] = forms.flatMap(shownBeforeCalls);
  const silent: ToolCallItem[] = [];
  for (const use of toolUsesOf(message.content)) {
    const spoken = speaker === null ? null : spokenText(use, speaker);
    if (spoken === null) silent.push(toCallItem(use));
    else bodies.push({ message_type: 'assistant_message', content: spoken });
  }
  const [first] = silent;
  if (first !== undefined) {
    bodies.push({ message_type: 'tool_call_message', tool_call: first, tool_calls: silent });
  }
  return bodies.length === 0 ? [{ message_type: 'assistant_message', content: '' }] : bodies;
}

function shownBeforeCalls(form: BlockForm): readonly Body[] {
  switch (form.kind) {
    case 'text':
      return form.text === '' ? [] : [{ message_type: 'assistant_message', content: form.text }];
    case 'reasoning':
      return [
        {
          message_type: 'reasoning_message',
          reasoning: form.reasoning,
          source: 'reasoner_model',
          signature: form.signature,
        },
      ];
    case 'redacted_reasoning':
      return [{ message_type: 'hidden_reasoning_message', state: 'redacted', hidden_reasoning: form.data }];
    case 'omitted_reasoning':
      return [{ message_type: 'hidden_reasoning_message', state: 'omitted', hidden_reasoning: null }];
    default:
      return [];
  }
}

/** Returns the text of a call of the speaking tool; null for every other call and for an empty text. */
function spokenText(use: ToolUseBlock, { tool, argument }: Speaker): string | null {
  if (use.name !== tool || !isJsonObject(use.input)) return null;
  const text = use.input[argument];
  return typeof text === 'string' ? text : null;
}

function toCallItem(use: ToolUseBlock): ToolCallItem {
  return { name: use.name, arguments: argumentsOf(use), tool_call_id: use.id };
}
