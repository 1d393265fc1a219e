import type { Model } from '../models.ts';
import type { ContentBlock, Message, MessageParams } from '../scripts/script.ts';
import { invalid, named } from './issue.ts';
import type { Issue } from './issue.ts';

const blocks = (message: Message | undefined): readonly ContentBlock[] =>
  message === undefined || typeof message.content === 'string' ? [] : message.content;

const isServerToolUse = (block: ContentBlock): boolean =>
  block.type === 'server_tool_use' || block.type === 'mcp_tool_use';

const isServerToolResult = (block: ContentBlock): boolean =>
  block.type !== 'tool_result' && block.type.endsWith('tool_result');

/** Returns the server tool uses of a message without a result in it. */
function openServerUses(message: Message): readonly ContentBlock[] {
  const answered = new Set(
    blocks(message)
      .filter(isServerToolResult)
      .map((block) => block['tool_use_id']),
  );
  return blocks(message).filter((block) => isServerToolUse(block) && !answered.has(block['id'] ?? null));
}

function resultsIssue(
  message: Message,
  at: number,
  asked: ReadonlySet<unknown>,
  onlyResults: boolean,
): Issue | undefined {
  const answered = new Set<unknown>();
  let otherBefore = false;
  for (const [index, block] of blocks(message).entries()) {
    const path = `messages.${at}.content.${index}`;
    if (block.type !== 'tool_result') {
      otherBefore = true;
      if (onlyResults) {
        return invalid(
          `${path}: while a server tool use is open, the reply must hold only \`tool_result\` blocks`,
        );
      }
      continue;
    }
    const id = block['tool_use_id'];
    if (!asked.has(id)) {
      return invalid(
        `${path}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${named(id)}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
      );
    }
    if (answered.has(id)) {
      return invalid(
        `${path}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${named(id)}`,
      );
    }
    if (otherBefore) return invalid(`${path}: \`tool_result\` blocks must come first in the user message`);
    answered.add(id);
  }
  const missing = [...asked].filter((id) => !answered.has(id));
  if (missing.length === 0) return undefined;
  return invalid(
    `messages.${at - 1}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${missing.join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
  );
}

function lastMessageIssue(message: Message | undefined, model: Model): Issue | undefined {
  if (message?.role !== 'assistant') return undefined;
  if (blocks(message).some((block) => isServerToolUse(block))) return undefined;
  if (!model.prefill) {
    return invalid(
      'This model does not support assistant message prefill. The conversation must end with a user message.',
    );
  }
  const last = typeof message.content === 'string' ? message.content : message.content.at(-1)?.['text'];
  if (typeof last === 'string' && /\s$/.test(last)) {
    return invalid('messages: final assistant content cannot end with trailing whitespace');
  }
  return undefined;
}

/** Validates that every tool use has exactly one result, in the next message, and every result a tool use. */
export function pairingIssue(params: MessageParams, model: Model): Issue | undefined {
  const { messages } = params;
  const seen = new Set<unknown>();
  for (const [at, message] of messages.entries()) {
    if (message.role === 'assistant') {
      for (const [index, block] of blocks(message).entries()) {
        if (block.type !== 'tool_use') continue;
        if (seen.has(block['id']))
          return invalid(`messages.${at}.content.${index}: \`tool_use\` ids must be unique`);
        seen.add(block['id']);
      }
    }
    const previous = messages[at - 1];
    const asked = new Set<unknown>(
      previous?.role === 'assistant'
        ? blocks(previous)
            .filter((block) => block.type === 'tool_use')
            .map((block) => block['id'])
        : [],
    );
    const open = previous?.role === 'assistant' ? openServerUses(previous) : [];
    if (message.role === 'user') {
      const issue = resultsIssue(message, at, asked, asked.size > 0 && open.length > 0);
      if (issue !== undefined) return issue;
    } else if (asked.size > 0) {
      const ids = [...asked].join(', ');
      return invalid(
        `messages.${at - 1}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids}.`,
      );
    }
    if (open.length > 0 && asked.size === 0 && message.role === 'user') {
      const { name, id } = open[0] as unknown as { name: string; id: string };
      return invalid(
        `messages.${at - 1}: \`${name}\` tool use with id \`${id}\` was found without a corresponding \`${name}_tool_result\` block`,
      );
    }
  }
  const last = messages.at(-1);
  const unanswered =
    last?.role === 'assistant' ? blocks(last).filter((block) => block.type === 'tool_use') : [];
  if (unanswered.length > 0) {
    const ids = unanswered.map((block) => named(block['id'])).join(', ');
    return invalid(
      `messages.${messages.length - 1}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids}.`,
    );
  }
  return lastMessageIssue(last, model);
}
