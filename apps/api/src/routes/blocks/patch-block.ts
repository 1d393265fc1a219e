import { isDeepStrictEqual } from 'node:util';
import { NightshiftError, toStorableText } from '@nightshift/agent-core';
import {
  assertLabelFree,
  inTransaction,
  lockBlock,
  readAgentBlock,
  readBlock,
  relabelBlock,
  writeBlock,
  type BlockContent,
  type BlockRow,
} from '@nightshift/db';
import type { Context } from '../../context.ts';
import type { BlockPatch } from '../../schemas/block.ts';
import { assertFits } from '../../wire/to-block.ts';

/** An agent and the label of its block. */
export interface LabelledBlock {
  readonly agent_id: string;
  readonly label: string;
}

/** Changes the patched fields of a block; see {@link changeBlock}. */
export function patchBlock(
  context: Context,
  blockId: string,
  patch: BlockPatch,
  holding: LabelledBlock | null = null,
): Promise<BlockRow> {
  const toWanted = (present: BlockRow): BlockContent => {
    const wanted = toContent(present, patch);
    assertFits(wanted.value, wanted.char_limit, patch.value == null ? '/limit' : '/value');
    return wanted;
  };
  return changeBlock(context, blockId, patch.expected_revision ?? null, toWanted, holding);
}

/**
 * Changes a block. Computes the new content from the present content under the block's lock, so concurrent changes of other
 * fields are kept.
 * Returns: the changed block.
 * Throws: `not_found` for an unknown block, or if the agent no longer has a block under the label. `conflict` if the agent now
 * has another block under it, if the new label is taken, or if the expected revision (null: none) is outdated.
 */
export async function changeBlock(
  context: Context,
  blockId: string,
  expectedRevision: number | null,
  toWanted: (present: BlockRow) => BlockContent,
  holding: LabelledBlock | null = null,
): Promise<BlockRow> {
  return inTransaction(context.db, async (trx) => {
    await lockBlock(trx, context.projectId, blockId);
    const present =
      holding === null
        ? await readBlock(trx, context.projectId, blockId)
        : await readAgentBlock(trx, holding.agent_id, holding.label);
    if (present.id !== blockId) throw overtaken(blockId);
    const wanted = toWanted(present);
    if (expectedRevision !== null && expectedRevision !== present.revision) {
      if (isInForce(present, wanted)) return present;
      throw overtaken(blockId);
    }
    if (wanted.label !== present.label) await assertLabelFree(trx, blockId, wanted.label);
    const written = isShownAlike(present, wanted)
      ? await relabelBlock(trx, blockId, present.revision, wanted)
      : (await writeBlock(trx, blockId, present.revision, wanted)) !== null;
    if (!written) throw overtaken(blockId);
    return readBlock(trx, context.projectId, blockId);
  });
}

function overtaken(blockId: string): NightshiftError {
  return new NightshiftError(
    'conflict',
    `The block block-${blockId} has been changed meanwhile. Read it again.`,
  );
}

function toContent(present: BlockRow, patch: BlockPatch): BlockContent {
  return {
    label: patch.label ?? present.label,
    value: patch.value == null ? present.value : toStorableText(patch.value),
    description: patch.description == null ? present.description : toStorableText(patch.description),
    char_limit: patch.limit ?? present.char_limit,
    read_only: patch.read_only ?? present.read_only,
    conflict_policy: patch.conflict_policy ?? present.conflict_policy,
    metadata: patch.metadata ?? present.metadata,
    tags: patch.tags ?? present.tags,
    is_template: patch.is_template ?? present.is_template,
    hidden: patch.hidden ?? present.hidden,
  };
}

/** Tells whether a block has this content. */
function isInForce(present: BlockRow, wanted: BlockContent): boolean {
  const unshown = ({ label, conflict_policy, metadata, tags, is_template, hidden }: BlockContent) => ({
    label,
    conflict_policy,
    metadata,
    tags,
    is_template,
    hidden,
  });
  return isShownAlike(present, wanted) && isDeepStrictEqual(unshown(present), unshown(wanted));
}

/** Tells whether requests show both the same way; if so, the change needs no revision. */
function isShownAlike(present: BlockRow, wanted: BlockContent): boolean {
  return (
    present.value === wanted.value &&
    present.description === wanted.description &&
    present.char_limit === wanted.char_limit &&
    present.read_only === wanted.read_only
  );
}
