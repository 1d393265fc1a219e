import type { ToolDefinition } from '../model/tool.ts';
import { memoryTool, text } from './memory-tool.ts';
import { STORE_TOOLS } from './store-tools.ts';
import { BLOCK_TOOLS } from './toolset.ts';

const label = text('Label of the memory block to change.');

/** Tools that edit the text of a block. */
const EDIT_TOOLS: readonly ToolDefinition[] = [
  memoryTool(
    'rethink_memory',
    'Write a memory block anew: its whole text is replaced. Keep every fact that still holds, merge what belongs ' +
      'together and leave out what has become wrong.',
    {
      new_memory: text('The complete new text of the block.'),
      target_block_label: text('Label of the memory block to rewrite.'),
    },
  ),
  memoryTool('core_memory_append', 'Add text to the end of a memory block, on a new line.', {
    label,
    content: text('The text to add.'),
  }),
  memoryTool(
    'core_memory_replace',
    'Replace every place where a text stands in a memory block. The old text must match exactly; an empty new text ' +
      'deletes it.',
    {
      label,
      old_content: text('The text to look for, exactly as it stands in the block.'),
      new_content: text('The text to put in its place.'),
    },
  ),
  memoryTool(
    'memory_insert',
    'Insert text as new lines of a memory block: after a given line, at the top, or at the end.',
    {
      label,
      new_string: text('The text to insert, without line numbers.'),
      insert_line: {
        type: 'integer',
        default: -1,
        description: 'Number of the line after which to insert: 0 is the top, -1 (the default) the end.',
      },
    },
    ['label', 'new_string'],
  ),
  memoryTool(
    'memory_replace',
    'Replace a text that stands exactly once in a memory block. Give enough of the surrounding text to make it ' +
      'unique; an empty new text deletes it.',
    {
      label,
      old_string: text('The text to look for, exactly as it stands in the block and without line numbers.'),
      new_string: text('The text to put in its place, without line numbers.'),
    },
  ),
  memoryTool(
    'memory_rethink',
    'Replace the whole text of a memory block, for changes too large for a single insertion or replacement.',
    { label, new_memory: text('The complete new text of the block, without line numbers.') },
  ),
];

/**
 * The built-in memory tools, named and called as Letta's.
 * They are carried out where the answer is applied, by {@link carryOutMemoryCall} or the store. Their side effects are
 * `none`: a call is committed with its step, so it cannot be half done.
 */
export const MEMORY_TOOLS: readonly ToolDefinition[] = [...EDIT_TOOLS, ...BLOCK_TOOLS, ...STORE_TOOLS];

const REWRITE_NAMES: readonly string[] = ['memory_insert', 'memory_replace', 'memory_rethink'];

/**
 * The tools of runs that only rewrite memory: insert, replace, rewrite. Tools that do the same under another name, that
 * rearrange blocks, or that say that editing is finished (which would cost a step) are left out.
 */
export const REWRITE_TOOLS: readonly ToolDefinition[] = EDIT_TOOLS.filter(({ name }) =>
  REWRITE_NAMES.includes(name),
);

const names: ReadonlySet<string> = new Set(MEMORY_TOOLS.map((tool) => tool.name));

/** Returns whether a name is a built-in memory tool's. */
export function isMemoryTool(name: string): boolean {
  return names.has(name);
}
