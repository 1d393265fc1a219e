import type { JsonObject } from '../base/json.ts';
import type { BlockView, BlockWrite } from '../model/block.ts';
import type { ToolOutcome } from '../model/tool.ts';
import { appendText, checkLimit, insertLines, replaceEverywhere, replaceOnce, type Edited } from './edits.ts';
import {
  checkWritable,
  findLineNumbers,
  readTexts,
  refused,
  unknownLabel,
  type Refusal,
  type WritableLabels,
} from './refusal.ts';
import { codePointLength } from './text.ts';

/** Outcome of a memory call: the text for the model, and the block to write, if any. */
export interface MemoryOutcome {
  readonly outcome: ToolOutcome;
  readonly write: BlockWrite | null;
}

interface MemoryEdit {
  readonly labelArgument: string;
  /** Names of the text arguments, in the order of `edit`. */
  readonly textArguments: readonly string[];
  readonly edit: (block: BlockView, texts: readonly string[], args: JsonObject) => Edited;
  readonly report: (block: BlockView) => string;
}

const newValue = (block: BlockView): string => block.value;

const MEMORY_EDITS: ReadonlyMap<string, MemoryEdit> = new Map<string, MemoryEdit>([
  [
    'rethink_memory',
    {
      labelArgument: 'target_block_label',
      textArguments: ['new_memory'],
      edit: (_block, [newMemory = '']) => ({ value: newMemory }),
      report: (block) => `Memory block '${block.label}' was rewritten: ${describeSize(block)}.`,
    },
  ],
  [
    'core_memory_append',
    {
      labelArgument: 'label',
      textArguments: ['content'],
      edit: (block, [content = '']) => appendText(block, content),
      report: newValue,
    },
  ],
  [
    'core_memory_replace',
    {
      labelArgument: 'label',
      textArguments: ['old_content', 'new_content'],
      edit: (block, [oldContent = '', newContent = '']) => replaceEverywhere(block, oldContent, newContent),
      report: newValue,
    },
  ],
  [
    'memory_insert',
    {
      labelArgument: 'label',
      textArguments: ['new_string'],
      edit: (block, [newString = ''], args) => {
        const line = args['insert_line'] ?? -1;
        if (typeof line === 'number' && Number.isInteger(line)) return insertLines(block, newString, line);
        return { kind: 'TypeError', message: "Argument 'insert_line' must be an integer." };
      },
      report: newValue,
    },
  ],
  [
    'memory_replace',
    {
      labelArgument: 'label',
      textArguments: ['old_string', 'new_string'],
      edit: (block, [oldString = '', newString = '']) => replaceOnce(block, oldString, newString),
      report: newValue,
    },
  ],
  [
    'memory_rethink',
    {
      labelArgument: 'label',
      textArguments: ['new_memory'],
      edit: (_block, [newMemory = '']) => ({ value: newMemory }),
      report: newValue,
    },
  ],
]);

/**
 * Carries out a call of a tool that edits a block attached to the agent. Never throws: an error is an outcome for the
 * model.
 * `write` is for the named block only; its value is within the limit and storable. It is null when the call failed or
 * changes nothing. The result is not yet cut to the tool's `return_char_limit`.
 */
export function applyMemoryTool(
  toolName: string,
  args: JsonObject,
  blocks: readonly BlockView[],
  writable: WritableLabels = null,
): MemoryOutcome {
  const memoryEdit = MEMORY_EDITS.get(toolName);
  if (memoryEdit === undefined) {
    return failed(toolName, { kind: 'KeyError', message: 'There is no built-in memory tool of this name.' });
  }
  const texts = readTexts(args, [memoryEdit.labelArgument, ...memoryEdit.textArguments]);
  if ('kind' in texts) return failed(toolName, texts);
  const [label = '', ...values] = texts;

  const block = blocks.find((candidate) => candidate.label === label);
  if (block === undefined) return failed(toolName, unknownLabel(label, blocks));
  const readOnly = checkWritable(block, writable);
  if (readOnly !== null) return failed(toolName, readOnly);
  const copied = findLineNumbers(memoryEdit.textArguments, values);
  if (copied !== null) return failed(toolName, copied);

  const edited = memoryEdit.edit(block, values, args);
  if ('kind' in edited) return failed(toolName, edited);
  if (edited.value === block.value) return { outcome: succeeded(memoryEdit, block), write: null };
  const overLimit = checkLimit(block, codePointLength(edited.value));
  if (overLimit !== null) return failed(toolName, overLimit);
  return {
    outcome: succeeded(memoryEdit, { ...block, value: edited.value }),
    write: { block_id: block.block_id, based_on_revision: block.revision, value: edited.value },
  };
}

function describeSize(block: BlockView): string {
  return `${codePointLength(block.value)} of at most ${block.char_limit} characters`;
}

function succeeded(memoryEdit: MemoryEdit, block: BlockView): ToolOutcome {
  return { ok: true, result: memoryEdit.report(block) };
}

function failed(toolName: string, refusal: Refusal): MemoryOutcome {
  return { outcome: refused(toolName, refusal), write: null };
}
