import { toStorableText, type JsonObject } from '../base/json.ts';
import {
  createBlock,
  describeBlock,
  detachBlock,
  draftValue,
  editBlock,
  renameBlock,
  type MemoryDraft,
} from './draft.ts';
import { insertLines, replaceOnce } from './edits.ts';
import { labelOfPath } from './label.ts';
import { findLineNumbers, refuse, type Refusal } from './refusal.ts';

const COMMANDS = ['create', 'str_replace', 'insert', 'delete', 'rename'];
/** Added after changes other than text edits: the prompt of a run stays as it began. */
const PROMPT_STAYS = 'Until the end of this run your prompt shows your memory as it was before.';

/** Reads the named text arguments of a command, or refuses a missing text. Null counts as absent. */
function textsOf(args: JsonObject, command: string, names: readonly string[]): readonly string[] | Refusal {
  const texts: string[] = [];
  for (const name of names) {
    const value = args[name] ?? null;
    if (value === null) return refuse(`Error: ${name} is required for ${command} command`);
    if (typeof value !== 'string')
      return { kind: 'TypeError', message: `Argument '${name}' must be a string.` };
    texts.push(toStorableText(value));
  }
  return texts;
}

function optionalText(args: JsonObject, name: string): string | null {
  const value = args[name];
  return typeof value === 'string' ? toStorableText(value) : null;
}

/** Runs a command of the `memory` tool on the draft; returns a report, or a refusal of all changes. */
export function applyCommand(draft: MemoryDraft, args: JsonObject): string | Refusal {
  const command = args['command'];
  switch (command) {
    case 'create':
      return create(draft, args);
    case 'str_replace':
      return replace(draft, args);
    case 'insert':
      return insert(draft, args);
    case 'delete':
      return remove(draft, args);
    case 'rename':
      return rename(draft, args);
    default: {
      const named = typeof command === 'string' ? command : JSON.stringify(command ?? null);
      return refuse(`Error: Unknown command '${named}'. Supported commands: ${COMMANDS.join(', ')}`);
    }
  }
}

function create(draft: MemoryDraft, args: JsonObject): string | Refusal {
  const texts = textsOf(args, 'create', ['path', 'description']);
  if ('kind' in texts) return texts;
  const [path = '', description = ''] = texts;
  const value = optionalText(args, 'file_text') ?? '';
  const label = labelOfPath(path);
  return (
    findLineNumbers(['file_text'], [value]) ??
    createBlock(draft, label, description, value) ??
    `Successfully created memory block '${label}'. ${PROMPT_STAYS}`
  );
}

function replace(draft: MemoryDraft, args: JsonObject): string | Refusal {
  const names = ['path', 'old_string', 'new_string'];
  const texts = textsOf(args, 'str_replace', names);
  if ('kind' in texts) return texts;
  const [path = '', oldString = '', newString = ''] = texts;
  const label = labelOfPath(path);
  return (
    findLineNumbers(names, texts) ??
    editBlock(draft, label, (block) => replaceOnce(block, oldString, newString)) ??
    draftValue(draft, label)
  );
}

function insert(draft: MemoryDraft, args: JsonObject): string | Refusal {
  const texts = textsOf(args, 'insert', ['path', 'insert_text']);
  if ('kind' in texts) return texts;
  const [path = '', text = ''] = texts;
  const line = args['insert_line'] ?? -1;
  if (typeof line !== 'number' || !Number.isInteger(line)) {
    return { kind: 'TypeError', message: "Argument 'insert_line' must be an integer." };
  }
  const label = labelOfPath(path);
  return (
    findLineNumbers(['insert_text'], [text]) ??
    editBlock(draft, label, (block) => insertLines(block, text, line)) ??
    draftValue(draft, label)
  );
}

function remove(draft: MemoryDraft, args: JsonObject): string | Refusal {
  const texts = textsOf(args, 'delete', ['path']);
  if ('kind' in texts) return texts;
  const [path = ''] = texts;
  const label = labelOfPath(path);
  return detachBlock(draft, label) ?? `Successfully deleted memory block '${label}'. ${PROMPT_STAYS}`;
}

/** Changes the label, or for a path with a description the description. */
function rename(draft: MemoryDraft, args: JsonObject): string | Refusal {
  const description = optionalText(args, 'description');
  const path = optionalText(args, 'path');
  if (path !== null && description !== null && args['new_path'] == null) {
    const label = labelOfPath(path);
    return (
      describeBlock(draft, label, description) ??
      `Successfully changed the description of memory block '${label}'. ${PROMPT_STAYS}`
    );
  }
  const texts = textsOf(args, 'rename', ['old_path', 'new_path']);
  if ('kind' in texts) return texts;
  const [from = '', to = ''] = texts.map(labelOfPath);
  return (
    renameBlock(draft, from, to) ?? `Successfully renamed memory block '${from}' to '${to}'. ${PROMPT_STAYS}`
  );
}
