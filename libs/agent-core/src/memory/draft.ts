import { BLOCK_CHAR_LIMIT_DEFAULT, type BlockView } from '../model/block.ts';
import { checkLimit, type Edited } from './edits.ts';
import type { MemoryEffect } from './effects.ts';
import { checkNewLabel } from './label.ts';
import { movedLabel, readOnly, refuse, unknownLabel, type KnownLabels, type Refusal } from './refusal.ts';
import { codePointLength } from './text.ts';

/** Blocks that one agent may have. */
const BLOCKS_MAX = 500;

/**
 * The blocks of an agent while one call changes them. Every change is checked against what the earlier ones left; the
 * first refusal means that nothing of the call is kept. Each method answers null, or why it cannot be done.
 */
export interface MemoryDraft {
  labels(): readonly Pick<BlockView, 'block_id' | 'label'>[];
  edit(label: string, edit: (block: BlockView) => Edited): Refusal | null;
  create(label: string, description: string | null, value: string): Refusal | null;
  detach(label: string): Refusal | null;
  rename(label: string, newLabel: string): Refusal | null;
  describe(label: string, description: string): Refusal | null;
  /** What the agent knows by now of the labels of its blocks. */
  known(): KnownLabels;
  /** The value that the block of this label has by now. */
  valueOf(label: string): string;
  /**
   * What is to be committed, in an order that never gives one label to two blocks: changes of blocks that there were,
   * as they came; then the last value of each; then new blocks, as they are by now.
   */
  effects(): readonly MemoryEffect[];
}

export interface DraftOptions {
  /** Makes the id of a new block. */
  readonly newBlockId: () => string;
  /** Whether a block cannot take a label for the sake of an agent that has it. */
  readonly isLabelTaken: IsLabelTaken;
  /** As the agent's request showed its blocks, with its own changes since. */
  readonly known: KnownLabels;
}

/** What the changes of a draft leave of the labels that are stored. */
export interface DraftLabels {
  /** Blocks that the agent of the draft has given up, and no other agent. */
  readonly detached: ReadonlySet<string>;
  /** The new labels of blocks, for every agent that has them. */
  readonly renamed: ReadonlyMap<string, string>;
}

/** Whether an agent that has the block has another one of this label, after what the draft has changed so far. */
export type IsLabelTaken = (blockId: string, label: string, drafted: DraftLabels) => boolean;

/** Opens a draft on blocks as the agent knows them. */
export function openDraft(
  attached: readonly BlockView[],
  { newBlockId, isLabelTaken, known: shown }: DraftOptions,
): MemoryDraft {
  const before = new Map(attached.map((block) => [block.block_id, block]));
  let blocks = attached;
  let known = shown;
  const structural: MemoryEffect[] = [];
  const detached = new Set<string>();
  const renamed = new Map<string, string>();

  const replace = (changed: BlockView): void => {
    blocks = blocks.map((block) => (block.block_id === changed.block_id ? changed : block));
  };
  const know = (...labels: readonly (readonly [string, string | null])[]): void => {
    known = new Map([...known, ...labels]);
  };
  /** The block, where it may be changed. */
  const writable = (label: string): BlockView | Refusal => {
    const moved = movedLabel(label, blocks, known);
    if (moved !== null) return moved;
    const block = blocks.find((candidate) => candidate.label === label);
    if (block === undefined) return unknownLabel(label, blocks);
    return block.read_only ? readOnly(label) : block;
  };
  const checkFree = (label: string): Refusal | null => {
    if (!blocks.some((block) => block.label === label)) return checkNewLabel(label);
    return refuse(`Memory block '${label}' already exists. Choose another label.`);
  };

  return {
    labels: () => blocks,
    known: () => known,
    edit(label, edit) {
      const block = writable(label);
      if ('kind' in block) return block;
      const edited = edit(block);
      if ('kind' in edited) return edited;
      const overLimit =
        edited.value === block.value ? null : checkLimit(block, codePointLength(edited.value));
      if (overLimit !== null) return overLimit;
      replace({ ...block, value: edited.value });
      return null;
    },
    create(label, description, value) {
      const taken = checkFree(label);
      if (taken !== null) return taken;
      if (blocks.length >= BLOCKS_MAX) {
        return refuse(`The agent has ${BLOCKS_MAX} memory blocks, which is the most. Delete one first.`);
      }
      const block: BlockView = {
        block_id: newBlockId(),
        revision: 1,
        label,
        description,
        value,
        char_limit: BLOCK_CHAR_LIMIT_DEFAULT,
        read_only: false,
      };
      const overLimit = checkLimit(block, codePointLength(value));
      if (overLimit !== null) return overLimit;
      blocks = [...blocks, block];
      know([label, block.block_id]);
      return null;
    },
    detach(label) {
      const block = writable(label);
      if ('kind' in block) return block;
      blocks = blocks.filter((candidate) => candidate !== block);
      detached.add(block.block_id);
      know([label, null]);
      if (before.has(block.block_id)) structural.push({ kind: 'detach', block_id: block.block_id, label });
      return null;
    },
    rename(label, newLabel) {
      const block = writable(label);
      if ('kind' in block) return block;
      if (newLabel === label) return null;
      const taken = checkFree(newLabel);
      if (taken !== null) return taken;
      if (isLabelTaken(block.block_id, newLabel, { detached, renamed })) {
        return refuse(
          `Memory block '${label}' is shared with an agent that has a block '${newLabel}' already. Choose another label.`,
        );
      }
      replace({ ...block, label: newLabel });
      renamed.set(block.block_id, newLabel);
      know([label, null], [newLabel, block.block_id]);
      if (before.has(block.block_id)) {
        structural.push({ kind: 'rename', block_id: block.block_id, label, new_label: newLabel });
      }
      return null;
    },
    describe(label, description) {
      const block = writable(label);
      if ('kind' in block) return block;
      if (block.description === description) return null;
      replace({ ...block, description });
      if (before.has(block.block_id)) {
        const { block_id, revision } = block;
        structural.push({ kind: 'describe', block_id, label, based_on_revision: revision, description });
      }
      return null;
    },
    valueOf: (label) => blocks.find((block) => block.label === label)?.value ?? '',
    effects() {
      const writes = blocks.flatMap((block): MemoryEffect[] => {
        const old = before.get(block.block_id);
        if (old === undefined || old.value === block.value) return [];
        const { block_id, label, value } = block;
        return [
          { kind: 'write', block_id, label, based_on_revision: old.revision, value, resolution: 'clean' },
        ];
      });
      const creates = blocks
        .filter((block) => !before.has(block.block_id))
        .map(({ block_id, label, description, value, char_limit }): MemoryEffect => {
          return { kind: 'create', block_id, label, description, value, char_limit };
        });
      return [...structural, ...writes, ...creates];
    },
  };
}
