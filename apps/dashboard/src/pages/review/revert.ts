import { nightshift } from '../../api/client.ts';
import type { Change } from './change.ts';

/**
 * Takes an accepted change back: the block gets its former text as a new revision, a block that the batch created is deleted,
 * and a block that the agent gave up is attached again.
 * Throws: an error whose message is for the person, if the block was written since.
 */
export async function revertChange(batchId: string, change: Change): Promise<void> {
  const { block_id, kind, from_revision, to_revision, agent_id, label } = change;
  const block =
    block_id === null
      ? await nightshift.memory.byLabel(agent_id, label)
      : kind === 'revised'
        ? await nightshift.memory.retrieve(block_id)
        : null;
  if (kind === 'revised' && from_revision !== null && block?.revision === to_revision) {
    const { id, revision } = block;
    await nightshift.memory.revert(id, { revision: from_revision, expected_revision: revision });
    return;
  }
  // A merged, new or detached block: the batch knows what it changed, and later edits stay.
  const id = block?.id ?? block_id;
  const report = await nightshift.batches.revert(
    batchId,
    id === null ? { agent_ids: [agent_id] } : { block_ids: [id] },
  );
  if (report.refused.length > 0)
    throw new Error(
      `The block “${label}” was written or deleted since, so that it cannot be taken back here. Open the block and choose a revision.`,
    );
}

/** Says what a revert does to the block of a change. */
export function revertText({ kind, from_revision }: Change): string {
  if (kind === 'created') return 'A revert deletes the block: the batch created it.';
  if (kind === 'detached') return 'A revert attaches the block to the agent again.';
  return `A revert puts the text of revision ${from_revision ?? 0} into force again, as a new revision.`;
}
