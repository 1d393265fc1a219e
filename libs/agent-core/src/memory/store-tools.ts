import type { JsonObject } from '../base/json.ts';
import type { ToolDefinition } from '../model/tool.ts';
import { memoryTool, text } from './memory-tool.ts';

const tags: JsonObject = {
  type: 'array',
  items: { type: 'string' },
  description: 'Short words to find the passage by.',
};

/** Searches limit their own results; a cut result is no JSON any more. */
const UNCUT = 1_000_000;

/**
 * Memory tools, named and called as Letta's, that the store answers by a query or an insert: see {@link readStoreCall}.
 */
export const STORE_TOOLS: readonly ToolDefinition[] = [
  memoryTool(
    'archival_memory_insert',
    'Keep a passage in your archival memory, which is not part of the prompt and can be searched.',
    { content: text('The text to keep, understandable by itself.'), tags },
    ['content'],
  ),
  memoryTool(
    'archival_memory_search',
    'Search your archival memory. The best passages come first.',
    {
      query: text('What to look for.'),
      tags: { ...tags, description: 'Only passages with these tags.' },
      tag_match_mode: {
        type: 'string',
        enum: ['any', 'all'],
        default: 'any',
        description: 'Whether a passage needs one of the tags, or all.',
      },
      top_k: { type: 'integer', default: 10, description: 'Most passages to show.' },
      start_datetime: text('Only passages kept from then on: an ISO 8601 date or time.'),
      end_datetime: text('Only passages kept until then, that day included: an ISO 8601 date or time.'),
    },
    ['query'],
    UNCUT,
  ),
  memoryTool(
    'conversation_search',
    'Search your earlier messages, also those that are no longer in the prompt.',
    {
      query: text('What to look for; without it the latest messages are shown.'),
      roles: {
        type: 'array',
        items: { type: 'string', enum: ['assistant', 'user', 'tool'] },
        description: 'Only messages of these roles.',
      },
      limit: { type: 'integer', default: 5, description: 'Most messages to show.' },
      start_date: text('Only messages from then on: an ISO 8601 date or time.'),
      end_date: text('Only messages until then, that day included: an ISO 8601 date or time.'),
    },
    [],
    UNCUT,
  ),
];

const names: ReadonlySet<string> = new Set(STORE_TOOLS.map((tool) => tool.name));

/** Returns whether the store answers a tool, rather than a change of blocks. */
export function isStoreCall(toolName: string): boolean {
  return names.has(toolName);
}
