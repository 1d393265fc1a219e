import { z } from 'zod';
import { shownId } from './ids.ts';
import { shownTime } from './moment.ts';
import { USER_MESSAGE } from './examples/agents.ts';
import { INTERNAL_MESSAGE } from './examples/batches.ts';

const textPart = z.object({ type: z.literal('text'), text: z.string() }).meta({ id: 'TextPart' });
const imagePart = z
  .object({
    type: z.literal('image'),
    source: z
      .discriminatedUnion('type', [
        z.looseObject({ type: z.literal('base64'), media_type: z.string(), data: z.string() }),
        z.looseObject({ type: z.literal('url'), url: z.string() }),
      ])
      .meta({ id: 'ImageSource' }),
  })
  .meta({ id: 'ImagePart' });
const toolCall = z
  .object({
    name: z.string(),
    arguments: z.string().describe('JSON.'),
    tool_call_id: z.string(),
  })
  .meta({ id: 'ToolCall' });
const output = z
  .array(z.string())
  .readonly()
  .nullable()
  .describe('One text: the first 4,096 characters. Null without any.');
const returnStatus = z.enum(['success', 'error']);
const toolReturn = z
  .object({
    type: z.literal('tool'),
    tool_return: z.string(),
    status: returnStatus,
    tool_call_id: z.string(),
    stdout: output,
    stderr: output,
  })
  .meta({ id: 'ToolReturn' });

/** A type of Letta's messages. */
function message<Type extends string, Shape extends z.core.$ZodLooseShape>(
  id: string,
  message_type: Type,
  shape: Shape,
) {
  return z
    .object({
      id: shownId('message').describe('Id of the stored message, shared by its items.'),
      message_type: z.literal(message_type),
      date: shownTime.describe('Of an appended message: its `said_at`, if known.'),
      name: z.string().nullable(),
      otid: z.string().describe('Unique.'),
      sender_id: z.null(),
      step_id: shownId('step').nullable(),
      run_id: shownId('run').nullable(),
      appended: z.boolean().describe('It was appended, and belongs to no run. Beyond Letta.'),
      is_err: z.null(),
      seq_id: z.null(),
      ...shape,
    })
    .meta({ id });
}

/** A message of an agent or run: Letta's union, discriminated by `message_type`. */
export const lettaMessage = z
  .discriminatedUnion('message_type', [
    message('SystemMessage', 'system_message', { content: z.string() }),
    message('UserMessage', 'user_message', {
      content: z.union([z.string(), z.array(z.discriminatedUnion('type', [textPart, imagePart])).readonly()]),
    }),
    message('AssistantMessage', 'assistant_message', { content: z.string() }),
    message('ReasoningMessage', 'reasoning_message', {
      reasoning: z.string(),
      source: z.literal('reasoner_model'),
      signature: z.string().nullable(),
    }),
    message('HiddenReasoningMessage', 'hidden_reasoning_message', {
      state: z.enum(['redacted', 'omitted']),
      hidden_reasoning: z.string().nullable(),
    }),
    message('ToolCallMessage', 'tool_call_message', {
      tool_call: toolCall.describe('The first of `tool_calls`.'),
      tool_calls: z.array(toolCall).readonly(),
    }),
    message('ToolReturnMessage', 'tool_return_message', {
      tool_return: z.string().describe('Of the first item of `tool_returns`, like the fields beside it.'),
      status: returnStatus,
      tool_call_id: z.string(),
      stdout: output,
      stderr: output,
      tool_returns: z.array(toolReturn).readonly(),
    }),
  ])
  .meta({ id: 'LettaMessage', examples: [USER_MESSAGE] });

const internalPart = z
  .discriminatedUnion('type', [
    textPart,
    imagePart,
    z
      .object({
        type: z.literal('reasoning'),
        is_native: z.literal(true),
        reasoning: z.string(),
        signature: z.string().nullable(),
      })
      .meta({ id: 'ReasoningPart' }),
    z
      .object({ type: z.literal('redacted_reasoning'), data: z.string() })
      .meta({ id: 'RedactedReasoningPart' }),
    z
      .object({ type: z.literal('omitted_reasoning'), signature: z.string().nullable() })
      .meta({ id: 'OmittedReasoningPart' }),
  ])
  .meta({ id: 'InternalContentPart' });

/** A message of a batch: Letta's internal form, discriminated by `role`. */
export const internalMessage = z
  .object({
    id: shownId('message'),
    role: z.enum(['assistant', 'user', 'tool', 'system']),
    agent_id: shownId('agent'),
    content: z.array(internalPart).readonly(),
    provider_content: z
      .array(z.looseObject({ type: z.string() }).meta({ id: 'ProviderBlock' }))
      .readonly()
      .describe('Provider blocks without an equivalent in Letta, unchanged. Beyond Letta.'),
    tool_calls: z
      .array(
        z
          .object({
            id: z.string(),
            type: z.literal('function'),
            function: z.object({ name: z.string(), arguments: z.string().describe('JSON.') }),
          })
          .meta({ id: 'InternalToolCall' }),
      )
      .readonly()
      .nullable(),
    tool_call_id: z.string().nullable(),
    tool_returns: z
      .array(
        z
          .object({
            tool_call_id: z.string(),
            status: returnStatus,
            func_response: z.string(),
            stdout: output,
            stderr: output,
          })
          .meta({ id: 'InternalToolReturn' }),
      )
      .readonly(),
    name: z.string().nullable(),
    batch_item_id: shownId('batch_item').nullable(),
    custom_id: z.string().nullable().describe("The caller's id of the request. Beyond Letta."),
    model: z.string().nullable(),
    created_at: shownTime,
    updated_at: shownTime,
    created_by_id: z.null(),
    last_updated_by_id: z.null(),
    otid: z.string().nullable(),
    run_id: shownId('run').nullable(),
    step_id: shownId('step').nullable(),
    group_id: z.null(),
    sender_id: z.null(),
    conversation_id: shownId('conversation'),
    is_err: z.null(),
    approval_request_id: z.null(),
    approve: z.null(),
    denial_reason: z.null(),
    approvals: z.array(z.never()).readonly(),
  })
  .meta({ id: 'InternalMessage', examples: [INTERNAL_MESSAGE] });
