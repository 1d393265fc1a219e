import { BLOCK_CHAR_LIMIT_DEFAULT, type BlockView } from '../model/block.ts';
import { checkLimit, type Edited } from './edits.ts';
import type { MemoryEffect } from './effects.ts';
import { checkNewLabel } from './label.ts';
import {
  checkMayName,
  checkWritable,
  movedLabel,
  refuse,
  unknownLabel,
  type KnownLabels,
  type Refusal,
  type WritableLabels,
} from './refusal.ts';
import { codePointLength } from './text.ts';

/** Maximum number of blocks of an agent. */
const BLOCKS_MAX = 500;

export interface DraftOptions {
  /** Makes the id of a new block. */
  readonly newBlockId: () => string;
  /** Whether the label clashes for an agent that has the block. */
  readonly isLabelTaken: IsLabelTaken;
  /** The blocks' labels as the request showed them, with the agent's own changes since. */
  readonly known: KnownLabels;
  /** Labels of the blocks that the run may write, keep and create. */
  readonly writable_labels: WritableLabels;
}

/** Changes of a draft to the stored labels. */
export interface DraftLabels {
  /** Blocks detached from the draft's agent only. */
  readonly detached: ReadonlySet<string>;
  /** New labels of blocks, for every agent that has them. */
  readonly renamed: ReadonlyMap<string, string>;
}

/** Returns whether an agent with the block has another block of this label, after the draft's changes so far. */
export type IsLabelTaken = (blockId: string, label: string, drafted: DraftLabels) => boolean;

/**
 * The blocks of an agent while a call changes them.
 * Every change is checked against the earlier changes, and the first refusal discards the call. Functions that change a
 * draft return null or the refusal.
 */
export interface MemoryDraft extends DraftLabels {
  readonly options: DraftOptions;
  /** The blocks before the call, by id. */
  readonly before: ReadonlyMap<string, BlockView>;
  blocks: readonly BlockView[];
  /** The agent's present view of its labels. */
  known: KnownLabels;
  readonly detached: Set<string>;
  readonly renamed: Map<string, string>;
  /** Changes of blocks of {@link MemoryDraft.before}, except values, in order. */
  readonly structural: MemoryEffect[];
}

/** Opens a draft on the blocks that the agent knows. */
export function openDraft(blocks: readonly BlockView[], options: DraftOptions): MemoryDraft {
  return {
    options,
    before: new Map(blocks.map((block) => [block.block_id, block])),
    blocks,
    known: options.known,
    detached: new Set(),
    renamed: new Map(),
    structural: [],
  };
}

/** Sets the value of a block. */
export function editBlock(
  draft: MemoryDraft,
  label: string,
  edit: (block: BlockView) => Edited,
): Refusal | null {
  const block = writableBlock(draft, label);
  if ('kind' in block) return block;
  const edited = edit(block);
  if ('kind' in edited) return edited;
  const { value } = edited;
  const overLimit = value === block.value ? null : checkLimit(block, codePointLength(value));
  if (overLimit === null) replaceBlock(draft, { ...block, value });
  return overLimit;
}

/** Attaches a new block. */
export function createBlock(
  draft: MemoryDraft,
  label: string,
  description: string | null,
  value: string,
): Refusal | null {
  const taken = checkFree(draft, label);
  if (taken !== null) return taken;
  if (draft.blocks.length >= BLOCKS_MAX) {
    return refuse(`The agent has ${BLOCKS_MAX} memory blocks, which is the most. Delete one first.`);
  }
  const block: BlockView = {
    block_id: draft.options.newBlockId(),
    revision: 1,
    label,
    description,
    value,
    char_limit: BLOCK_CHAR_LIMIT_DEFAULT,
    read_only: false,
  };
  const overLimit = checkLimit(block, codePointLength(value));
  if (overLimit !== null) return overLimit;
  draft.blocks = [...draft.blocks, block];
  learnLabels(draft, [label, block.block_id]);
  return null;
}

/** Detaches a block from the agent. */
export function detachBlock(draft: MemoryDraft, label: string): Refusal | null {
  const block = writableBlock(draft, label);
  if ('kind' in block) return block;
  const { block_id } = block;
  draft.blocks = draft.blocks.filter((candidate) => candidate !== block);
  draft.detached.add(block_id);
  learnLabels(draft, [label, null]);
  if (draft.before.has(block_id)) draft.structural.push({ kind: 'detach', block_id, label });
  return null;
}

/** Changes the label of a block for every agent that has it. */
export function renameBlock(draft: MemoryDraft, label: string, newLabel: string): Refusal | null {
  const block = writableBlock(draft, label);
  if ('kind' in block) return block;
  if (newLabel === label) return null;
  const taken = checkFree(draft, newLabel);
  if (taken !== null) return taken;
  const { block_id } = block;
  if (draft.options.isLabelTaken(block_id, newLabel, draft)) {
    return refuse(
      `Memory block '${label}' is shared with an agent that has a block '${newLabel}' already. Choose another label.`,
    );
  }
  replaceBlock(draft, { ...block, label: newLabel });
  draft.renamed.set(block_id, newLabel);
  learnLabels(draft, [label, null], [newLabel, block_id]);
  if (draft.before.has(block_id))
    draft.structural.push({ kind: 'rename', block_id, label, new_label: newLabel });
  return null;
}

/** Changes the description of a block. */
export function describeBlock(draft: MemoryDraft, label: string, description: string): Refusal | null {
  const block = writableBlock(draft, label);
  if ('kind' in block) return block;
  if (block.description === description) return null;
  replaceBlock(draft, { ...block, description });
  const { block_id, revision } = block;
  if (draft.before.has(block_id))
    draft.structural.push({ kind: 'describe', block_id, label, based_on_revision: revision, description });
  return null;
}

/** Returns the present value of a block. */
export function draftValue({ blocks }: MemoryDraft, label: string): string {
  return blocks.find((block) => block.label === label)?.value ?? '';
}

/**
 * Returns the effects in an order that never gives a label to two blocks.
 * Order: changes of existing blocks as made, their last values, new blocks in their present state.
 */
export function draftEffects({ before, blocks, structural }: MemoryDraft): readonly MemoryEffect[] {
  const writes = blocks.flatMap((block): MemoryEffect[] => {
    const old = before.get(block.block_id);
    if (old === undefined || old.value === block.value) return [];
    const { block_id, label, value } = block;
    return [{ kind: 'write', block_id, label, based_on_revision: old.revision, value, resolution: 'clean' }];
  });
  const creates = blocks
    .filter((block) => !before.has(block.block_id))
    .map(({ block_id, label, description, value, char_limit }): MemoryEffect => {
      return { kind: 'create', block_id, label, description, value, char_limit };
    });
  return [...structural, ...writes, ...creates];
}

/** Returns the block of a label if it may be changed. */
function writableBlock({ blocks, known, options }: MemoryDraft, label: string): BlockView | Refusal {
  const moved = movedLabel(label, blocks, known);
  if (moved !== null) return moved;
  const block = blocks.find((candidate) => candidate.label === label);
  if (block === undefined) return unknownLabel(label, blocks);
  return checkWritable(block, options.writable_labels) ?? block;
}

function checkFree({ blocks, options }: MemoryDraft, label: string): Refusal | null {
  if (!blocks.some((block) => block.label === label))
    return checkNewLabel(label) ?? checkMayName(label, options.writable_labels);
  return refuse(`Memory block '${label}' already exists. Choose another label.`);
}

function replaceBlock(draft: MemoryDraft, changed: BlockView): void {
  draft.blocks = draft.blocks.map((block) => (block.block_id === changed.block_id ? changed : block));
}

function learnLabels(draft: MemoryDraft, ...labels: readonly (readonly [string, string | null])[]): void {
  draft.known = new Map([...draft.known, ...labels]);
}
