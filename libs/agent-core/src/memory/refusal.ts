import { toStorableText, type JsonObject } from '../base/json.ts';
import type { BlockView } from '../model/block.ts';
import type { ToolOutcome } from '../model/tool.ts';

/** The reason why a call changes nothing. `kind` is the error name of Letta's Python tools, which its agents know. */
export interface Refusal {
  readonly kind: 'KeyError' | 'TypeError' | 'ValueError';
  readonly message: string;
}

/** Makes a refusal of a call's arguments, the usual kind. */
export function refuse(message: string): Refusal {
  return { kind: 'ValueError', message };
}

/** Longest error text, in UTF-16 units; as in Letta. */
const ERROR_CHARS_MAX = 1000;

/** Makes the text for the model of a refused call, in the words that Letta's agents know. */
export function refused(toolName: string, refusal: Refusal): ToolOutcome {
  const text = toStorableText(`Error executing function ${toolName}: ${refusal.kind}: ${refusal.message}`);
  // A cut through a surrogate pair leaves half of it behind, which toWellFormed replaces.
  return { ok: false, result: text.slice(0, ERROR_CHARS_MAX).toWellFormed() };
}

/** Reads the named text arguments in order, in storable form. */
export function readTexts(args: JsonObject, names: readonly string[]): readonly string[] | Refusal {
  const texts: string[] = [];
  for (const name of names) {
    const value = args[name];
    if (typeof value !== 'string') {
      const problem = value === undefined ? 'is missing' : 'must be a string';
      return { kind: 'TypeError', message: `Argument '${name}' ${problem}.` };
    }
    texts.push(toStorableText(value));
  }
  return texts;
}

/** Refuses a label that no block of the agent has. */
export function unknownLabel(label: string, blocks: readonly Pick<BlockView, 'label'>[]): Refusal {
  const labels = blocks.map((block) => block.label).join(', ');
  const existing = blocks.length === 0 ? 'The agent has no memory blocks' : `Existing labels: ${labels}`;
  return { kind: 'KeyError', message: `Memory block '${label}' does not exist. ${existing}.` };
}

/** The known block of each label, by id; null for a label that the agent took away itself. */
export type KnownLabels = ReadonlyMap<string, string | null>;

/** Refuses a label that another writer has taken from the block that the agent knows under it. */
export function movedLabel(
  label: string,
  blocks: readonly Pick<BlockView, 'block_id' | 'label'>[],
  known: KnownLabels,
): Refusal | null {
  const knownId = known.get(label) ?? null;
  const holder = blocks.find((block) => block.label === label);
  if (knownId === null || holder?.block_id === knownId) return null;
  const block = blocks.find(({ block_id }) => block_id === knownId);
  if (block === undefined && holder === undefined) return null;
  const fate = block === undefined ? 'is gone' : `is called '${block.label}' now`;
  const message =
    `The memory block that you know as '${label}' ${fate}; another writer changed that after you last saw it. ` +
    'Nothing was written. The next message shows your memory as it is now.';
  return { kind: 'KeyError', message };
}

/** Labels of the blocks that a run may write; null for all. */
export type WritableLabels = readonly string[] | null;

/** Returns whether a run may write a block of this label. */
export function mayWrite(label: string, writable: WritableLabels): boolean {
  return writable === null || writable.includes(label);
}

/** Refuses a block that the agent, or this run, may only read. */
export function checkWritable(
  { label, read_only }: Pick<BlockView, 'label' | 'read_only'>,
  writable: WritableLabels,
): Refusal | null {
  if (read_only) return refuse(`Memory block '${label}' is read-only and cannot be edited.`);
  if (mayWrite(label, writable)) return null;
  return refuse(
    `Memory block '${label}' is read-only in this run and cannot be edited. ${listWritable(writable)}`,
  );
}

/** Refuses a new label that a run may not write. */
export function checkMayName(label: string, writable: WritableLabels): Refusal | null {
  if (mayWrite(label, writable)) return null;
  return refuse(`No memory block may be named '${label}' in this run. ${listWritable(writable)}`);
}

function listWritable(writable: WritableLabels): string {
  const labels = writable ?? [];
  return labels.length === 0 ? 'It may write no blocks.' : `It may write only: ${labels.join(', ')}.`;
}

const LINE_NUMBER_PREFIX = /^[ \t]*\p{Nd}+→/mu;
/** A part of the banner above numbered lines that no memory holds by chance. */
const LINE_NUMBER_BANNER_PART = "(with arrows like '1→')";

/** Refuses copied line numbers, which the prompt may show and which must not be stored. */
export function findLineNumbers(names: readonly string[], texts: readonly string[]): Refusal | null {
  for (const [index, text] of texts.entries()) {
    if (!text.includes('→')) continue;
    const copied = text.includes(LINE_NUMBER_BANNER_PART)
      ? 'the line number warning'
      : LINE_NUMBER_PREFIX.test(text)
        ? 'a line number prefix'
        : null;
    if (copied !== null) {
      const [name = ''] = names.slice(index);
      return refuse(
        `Argument '${name}' contains ${copied}, which is only shown for reading. Call again without it.`,
      );
    }
  }
  return null;
}
