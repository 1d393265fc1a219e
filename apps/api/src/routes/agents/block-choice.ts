import { NightshiftError } from '@nightshift/agent-core';
import { readBlocks, type NewBlock, type Tx } from '@nightshift/db';

/**
 * Checks that an agent can hold these new and existing blocks. A repeated block counts once.
 * Throws: `not_found` for an unknown block, `validation_failed` for two blocks with the same label.
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
      const message = `the label '${label}' is already used by ${first}; an agent has one block per label`;
      throw new NightshiftError('validation_failed', `${path}: ${message}.`, { fields: [{ path, message }] });
    }
    places.set(label, path);
  }
}
