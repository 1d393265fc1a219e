import type { Model } from '../models.ts';
import { invalid, isObject } from './issue.ts';
import type { Issue, ValidationContext } from './issue.ts';

const MAX_MESSAGES = 100_000;
const VERSION_WITHOUT_USER_CITATIONS = '2026-10-21';

function toolResultIssue(block: Record<string, unknown>, path: string): Issue | undefined {
  if (typeof block['tool_use_id'] !== 'string')
    return invalid(`${path}.tool_result.tool_use_id: Field required`);
  const { content } = block;
  if (content !== undefined && typeof content !== 'string' && !Array.isArray(content)) {
    return invalid(`${path}.tool_result.content: Input should be a valid string or list`);
  }
  if (block['is_error'] !== undefined && typeof block['is_error'] !== 'boolean') {
    return invalid(`${path}.tool_result.is_error: Input should be a valid boolean`);
  }
  return undefined;
}

function blockIssue(
  block: unknown,
  role: string,
  path: string,
  context: ValidationContext,
): Issue | undefined {
  if (!isObject(block) || typeof block['type'] !== 'string') return invalid(`${path}.type: Field required`);
  switch (block['type']) {
    case 'text':
      if (typeof block['text'] !== 'string') return invalid(`${path}.text.text: Field required`);
      if (block['text'] === '') return invalid(`${path}: text content blocks must be non-empty`);
      if (block['text'].trim() === '')
        return invalid(`${path}: text content blocks must contain non-whitespace text`);
      if (
        role === 'user' &&
        context.version >= VERSION_WITHOUT_USER_CITATIONS &&
        Array.isArray(block['citations']) &&
        block['citations'].length > 0
      ) {
        return invalid(`${path}.text.citations: not permitted in user messages`);
      }
      return undefined;
    case 'tool_use':
      if (role !== 'assistant')
        return invalid(`${path}: \`tool_use\` blocks can only be in \`assistant\` messages`);
      if (typeof block['id'] !== 'string' || !/^[a-zA-Z0-9_-]+$/.test(block['id'])) {
        return invalid(`${path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`);
      }
      if (typeof block['name'] !== 'string' || block['name'].length === 0 || block['name'].length > 200) {
        return invalid(`${path}.tool_use.name: String should have at least 1 and at most 200 characters`);
      }
      return isObject(block['input'])
        ? undefined
        : invalid(`${path}.tool_use.input: Input should be a valid dictionary`);
    case 'tool_result':
      if (role !== 'user') return invalid(`${path}: \`tool_result\` blocks can only be in \`user\` messages`);
      return toolResultIssue(block, path);
    case 'thinking':
    case 'redacted_thinking':
      if (role !== 'assistant')
        return invalid(`${path}: \`thinking\` blocks can only be in \`assistant\` messages`);
      return undefined;
    case 'document':
      if (role === 'assistant' && context.version >= VERSION_WITHOUT_USER_CITATIONS) {
        return invalid(`${path}: \`document\` blocks are not permitted in \`assistant\` messages`);
      }
      return undefined;
    default:
      return undefined;
  }
}

function messageIssue(
  message: unknown,
  at: number,
  isLast: boolean,
  context: ValidationContext,
): Issue | undefined {
  if (!isObject(message)) return invalid(`messages.${at}: Input should be a valid dictionary`);
  const { role, content } = message;
  if (role !== 'user' && role !== 'assistant' && role !== 'system') {
    return invalid(`messages.${at}.role: Input should be 'user' or 'assistant'`);
  }
  if (at === 0 && role !== 'user') return invalid('messages: first message must use the "user" role');
  const unknown = Object.keys(message).find((key) => key !== 'role' && key !== 'content');
  if (unknown !== undefined) return invalid(`messages.${at}.${unknown}: Extra inputs are not permitted`);
  const mayBeEmpty = role === 'assistant' && isLast;
  if (typeof content === 'string') {
    if (content === '' && !mayBeEmpty)
      return invalid(`messages.${at}: all messages must have non-empty content`);
    return undefined;
  }
  if (!Array.isArray(content))
    return invalid(`messages.${at}.content: Input should be a valid string or list`);
  if (content.length === 0 && !mayBeEmpty) {
    return invalid(
      `messages.${at}: all messages must have non-empty content except for the optional final assistant message`,
    );
  }
  for (const [index, block] of content.entries()) {
    const issue = blockIssue(block, role, `messages.${at}.content.${index}`, context);
    if (issue !== undefined) return issue;
  }
  return undefined;
}

/** Validates system messages: they follow a user message or a server tool's result, and precede no user message. */
function systemIssue(messages: readonly Record<string, unknown>[], model: Model): Issue | undefined {
  for (const [at, { role }] of messages.entries()) {
    if (role !== 'system') continue;
    if (model.system_messages !== true)
      return invalid(`messages.${at}: role 'system' is not supported on this model`);
    const before = messages.slice(0, at).findLast((message) => message['role'] !== 'system');
    const next = messages.slice(at).find((message) => message['role'] !== 'system');
    if ((before?.['role'] !== 'user' && !endsWithServerTool(before)) || next?.['role'] === 'user') {
      return invalid(
        `messages.${at}: a system message must follow a user message and be followed by an assistant message or none`,
      );
    }
  }
  return undefined;
}

function endsWithServerTool(message: Record<string, unknown> | undefined): boolean {
  const content = message?.['content'];
  const last: unknown = Array.isArray(content) ? content.at(-1) : undefined;
  return isObject(last) && typeof last['type'] === 'string' && last['type'].endsWith('_tool_result');
}

/** Validates `messages`: roles, content, and the members of known block types. */
export function messagesIssue(
  messages: unknown,
  model: Model,
  context: ValidationContext,
): Issue | undefined {
  if (!Array.isArray(messages)) return invalid('messages: Field required');
  if (messages.length === 0) return invalid('messages: at least one message is required');
  if (messages.length > MAX_MESSAGES)
    return invalid(`messages: List should have at most ${MAX_MESSAGES} items`);
  for (const [at, message] of messages.entries()) {
    const issue = messageIssue(message, at, at === messages.length - 1, context);
    if (issue !== undefined) return issue;
  }
  return systemIssue(messages as Record<string, unknown>[], model);
}
