import type { JsonObject } from '../base/json.ts';
import type { ToolDefinition } from '../model/tool.ts';
import { memoryTool, text } from './memory-tool.ts';

const path = text('Path of the block, as /memories/<label>.');
const insertLine: JsonObject = {
  type: 'integer',
  default: -1,
  description: 'Number of the line after which to insert; 0 is the top, -1 the end.',
};

/**
 * Memory tools, named and called as Letta's, for several blocks, for labels, or without effect on memory.
 * Includes the old names of two commands. Carried out by {@link carryOutMemoryCall}.
 */
export const BLOCK_TOOLS: readonly ToolDefinition[] = [
  memoryTool(
    'memory_apply_patch',
    'Change memory blocks by a patch. For one block give its label and hunks: lines beginning with a space stay, with ' +
      "'-' go, with '+' come; '@@' separates hunks, and the lines of a hunk that stay or go must stand in exactly one " +
      "place. For several blocks use the headings '*** Add Block: <label>' (then perhaps 'Description: …', then lines " +
      "with '+'), '*** Update Block: <label>' (then hunks), '*** Delete Block: <label>' and '*** Move to: <new label>'. " +
      'Either the whole patch is applied or nothing of it.',
    {
      label: text('Label of the block to patch; not used when the patch has headings.'),
      patch: text('The patch, without line numbers.'),
    },
    ['patch'],
  ),
  memoryTool(
    'memory_finish_edits',
    'Say that you are done with editing memory. Call it once, after your last edit.',
    {},
    [],
  ),
  memoryTool(
    'memory',
    'Manage memory blocks as files under /memories. Commands: create (path, description, file_text), str_replace ' +
      '(path, old_string, new_string), insert (path, insert_text, insert_line), delete (path), rename (old_path, ' +
      'new_path; or path and description to describe it anew).',
    {
      command: { type: 'string', enum: ['create', 'str_replace', 'insert', 'delete', 'rename'] },
      path,
      description: text('For create and rename: what the block is for.'),
      file_text: text('For create: the text of the new block.'),
      old_string: text('For str_replace: text that stands exactly once in the block.'),
      new_string: text('For str_replace: the text to put in its place.'),
      insert_line: {
        type: 'integer',
        default: -1,
        description: 'For insert: number of the line after which to insert; 0 is the top, -1 the end.',
      },
      insert_text: text('For insert: the text to insert.'),
      old_path: text('For rename: the present path.'),
      new_path: text('For rename: the new path.'),
    },
    ['command'],
  ),
  memoryTool(
    'send_message',
    'Say something to the user.',
    { message: text('What to say. Markdown is shown as such.') },
    ['message'],
  ),
  memoryTool(
    'memory_str_replace',
    'Replace a text that stands exactly once in a memory block.',
    {
      path,
      old_string: text('The text to look for, exactly as it stands in the block.'),
      new_string: text('The text to put in its place.'),
    },
    ['path', 'old_string', 'new_string'],
  ),
  memoryTool(
    'memory_str_insert',
    'Insert text as new lines of a memory block: after a given line, at the top, or at the end.',
    { path, insert_text: text('The text to insert.'), insert_line: insertLine },
    ['path', 'insert_text'],
  ),
  memoryTool(
    'rethink_user_memory',
    "Write the memory block 'human' anew: what you know of the user. Keep every fact that still holds.",
    { new_memory: text('The complete new text of the block.') },
    ['new_memory'],
  ),
  memoryTool(
    'finish_rethinking_memory',
    'Say that you are done with rewriting memory. Call it once, after your last rewrite.',
    {},
    [],
  ),
];
