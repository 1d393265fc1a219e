import type { JsonObject } from '../base/json.ts';
import type { ToolDefinition } from '../model/tool.ts';

const string = (description: string): JsonObject => ({ type: 'string', description });
const tags: JsonObject = {
  type: 'array',
  items: { type: 'string' },
  description: 'Short words to find the passage by.',
};

function storeTool(
  name: string,
  description: string,
  properties: JsonObject,
  required: readonly string[],
  return_char_limit = 50_000,
): ToolDefinition {
  return {
    name,
    kind: 'memory',
    description,
    input_schema: { type: 'object', properties, required: [...required], additionalProperties: false },
    side_effects: 'none',
    return_char_limit,
    timeout_ms: 60_000,
    requires_approval: false,
  };
}

/** Searches limit themselves; a result that is cut in the middle is no JSON any more. */
const UNCUT = 1_000_000;

/**
 * Further memory tools, named and called as Letta's: those that may change several blocks or their labels, carried out
 * by {@link carryOutMemoryCall}, and those that the store answers, read by {@link readStoreCall} and
 * {@link readTranscriptChunks}.
 */
export const FURTHER_MEMORY_TOOLS: readonly ToolDefinition[] = [
  storeTool(
    'memory_apply_patch',
    'Change memory blocks by a patch. For one block give its label and hunks: lines beginning with a space stay, with ' +
      "'-' go, with '+' come; '@@' separates hunks, and the lines of a hunk that stay or go must stand in exactly one " +
      "place. For several blocks use the headings '*** Add Block: <label>' (then perhaps 'Description: …', then lines " +
      "with '+'), '*** Update Block: <label>' (then hunks), '*** Delete Block: <label>' and '*** Move to: <new label>'. " +
      'Either the whole patch is applied or nothing of it.',
    {
      label: string('Label of the block to patch; not used when the patch has headings.'),
      patch: string('The patch, without line numbers.'),
    },
    ['patch'],
  ),
  storeTool(
    'memory_finish_edits',
    'Say that you are done with editing memory. Call it once, after your last edit.',
    {},
    [],
  ),
  storeTool(
    'memory',
    'Manage memory blocks as files under /memories. Commands: create (path, description, file_text), str_replace ' +
      '(path, old_string, new_string), insert (path, insert_text, insert_line), delete (path), rename (old_path, ' +
      'new_path; or path and description to describe it anew).',
    {
      command: { type: 'string', enum: ['create', 'str_replace', 'insert', 'delete', 'rename'] },
      path: string('Path of the block, as /memories/<label>.'),
      description: string('For create and rename: what the block is for.'),
      file_text: string('For create: the text of the new block.'),
      old_string: string('For str_replace: text that stands exactly once in the block.'),
      new_string: string('For str_replace: the text to put in its place.'),
      insert_line: {
        type: 'integer',
        default: -1,
        description: 'For insert: number of the line after which to insert; 0 is the top, -1 the end.',
      },
      insert_text: string('For insert: the text to insert.'),
      old_path: string('For rename: the present path.'),
      new_path: string('For rename: the new path.'),
    },
    ['command'],
  ),
  storeTool(
    'archival_memory_insert',
    'Keep a passage in your archival memory, which is not part of the prompt and can be searched.',
    { content: string('The text to keep, understandable by itself.'), tags },
    ['content'],
  ),
  storeTool(
    'archival_memory_search',
    'Search your archival memory. The best passages come first.',
    {
      query: string('What to look for.'),
      tags: { ...tags, description: 'Only passages with these tags.' },
      tag_match_mode: {
        type: 'string',
        enum: ['any', 'all'],
        default: 'any',
        description: 'Whether a passage needs one of the tags, or all.',
      },
      top_k: { type: 'integer', default: 10, description: 'Most passages to show.' },
      start_datetime: string('Only passages kept from then on: an ISO 8601 date or time.'),
      end_datetime: string('Only passages kept until then, that day included: an ISO 8601 date or time.'),
    },
    ['query'],
    UNCUT,
  ),
  storeTool(
    'conversation_search',
    'Search your earlier messages, also those that are no longer in the prompt.',
    {
      query: string('What to look for; without it the latest messages are shown.'),
      roles: {
        type: 'array',
        items: { type: 'string', enum: ['assistant', 'user', 'tool'] },
        description: 'Only messages of these roles.',
      },
      limit: { type: 'integer', default: 5, description: 'Most messages to show.' },
      start_date: string('Only messages from then on: an ISO 8601 date or time.'),
      end_date: string('Only messages until then, that day included: an ISO 8601 date or time.'),
    },
    [],
    UNCUT,
  ),
  storeTool(
    'send_message',
    'Say something to the user.',
    { message: string('What to say. Markdown is shown as such.') },
    ['message'],
  ),
  storeTool(
    'store_memories',
    'Keep parts of the conversation that is about to be lost in archival memory, each with what one needs to know to ' +
      'understand it later.',
    {
      chunks: {
        type: 'array',
        description: 'The parts, each about one topic.',
        items: {
          type: 'object',
          properties: {
            start_index: { type: 'integer', description: 'Number of its first line.' },
            end_index: { type: 'integer', description: 'Number of its last line.' },
            context: string('What it is about, in a sentence or two.'),
          },
          required: ['start_index', 'end_index', 'context'],
          additionalProperties: false,
        },
      },
    },
    ['chunks'],
  ),
  storeTool(
    'rethink_user_memory',
    "Write the memory block 'human' anew: what you know of the user. Keep every fact that still holds.",
    { new_memory: string('The complete new text of the block.') },
    ['new_memory'],
  ),
  storeTool(
    'finish_rethinking_memory',
    'Say that you are done with rewriting memory. Call it once, after your last rewrite.',
    {},
    [],
  ),
];

const STORE_CALLS: ReadonlySet<string> = new Set([
  'archival_memory_insert',
  'archival_memory_search',
  'conversation_search',
  'store_memories',
]);

/** True for tools that the store answers by a query or an insert, rather than by a change of blocks. */
export function isStoreCall(toolName: string): boolean {
  return STORE_CALLS.has(toolName);
}
