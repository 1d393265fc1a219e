import type { WriteResolution } from '../model/block-change.ts';

/**
 * A change that a memory call makes to its agent's blocks.
 * The effects of a call are committed together and in order, or not at all.
 */
export type MemoryEffect =
  /** A new revision of a block. */
  | {
      readonly kind: 'write';
      readonly block_id: string;
      readonly label: string;
      /** The base revision of the value: the request's, or the agent's own last. */
      readonly based_on_revision: number;
      readonly value: string;
      readonly resolution: WriteResolution;
    }
  /** A new block, attached to the agent. */
  | {
      readonly kind: 'create';
      readonly block_id: string;
      readonly label: string;
      readonly description: string | null;
      readonly value: string;
      readonly char_limit: number;
    }
  /** Detaches the block from the agent; the block itself, its revisions and its other agents remain. */
  | { readonly kind: 'detach'; readonly block_id: string; readonly label: string }
  | {
      readonly kind: 'rename';
      readonly block_id: string;
      readonly label: string;
      readonly new_label: string;
    }
  /** A new description, as a revision with the same value. */
  | {
      readonly kind: 'describe';
      readonly block_id: string;
      readonly label: string;
      /** The revision that the agent saw. */
      readonly based_on_revision: number;
      readonly description: string;
    };
