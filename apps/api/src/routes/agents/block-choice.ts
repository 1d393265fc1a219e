import { NightshiftError } from '@nightshift/agent-core';
import { readBlocks, type NewBlock, type Tx } from '@nightshift/db';

/**
 * Checks that an agent can hold these new and existing blocks, as they were given: each exists (`not_found`), and no two have one
 * label (`validation_failed`). A block that is named again counts once.
 */
export async function assertBlocksFit(
  trx: Tx,
  projectId: string,
  created: readonly NewBlock[],
  blockIds: readonly string[],
): Promise<void> {
  const existing = new Map((await readBlocks(trx, projectId, blockIds)).map((block) => [block.id, block]));
  const named = [
    ...created.map((block, index) => ({ path: `/memory_blocks/${index}/label`, label: block.label })),
    ...[...new Set(blockIds)].map((id) => {
      const path = `/block_ids/${blockIds.indexOf(id)}`;
      const block = existing.get(id);
      if (block === undefined) {
        const message = `There is no block block-${id}.`;
        throw new NightshiftError('not_found', message, { fields: [{ path, message }] });
      }
      return { path, label: block.label };
    }),
  ];
  const places = new Map<string, string>();
  for (const { path, label } of named) {
    const first = places.get(label);
    if (first !== undefined) {
      const message = `an agent has one block of a label, and '${label}' is that of ${first}`;
      throw new NightshiftError('validation_failed', `${path}: ${message}.`, { fields: [{ path, message }] });
    }
    places.set(label, path);
  }
}
