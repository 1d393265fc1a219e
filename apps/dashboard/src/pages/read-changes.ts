import type { HeldChange, MemoryChange, Run } from '@nightshift/client';
import { nightshift } from '../api/client.ts';

/** Changes of the agent in its batch that are looked at: the API filters by agent, not by run. */
const LOOKED_AT_MAX = 1_000;
const PAGE_ITEMS = 100;

/** Reads the changes of a run that are in force. */
export function readWritten({ id, batch_id, agent_id }: Run): Promise<readonly MemoryChange[]> {
  const all = nightshift.batches.memoryChanges(batch_id, { agent_id, limit: PAGE_ITEMS });
  return ofRun(id, all);
}

/** Reads the changes of a run that a review holds, or has settled, with their texts. */
export function readHeld({ id, batch_id, agent_id }: Run): Promise<readonly HeldChange[]> {
  const all = nightshift.batches.heldChanges(batch_id, { agent_id, include: 'values', limit: PAGE_ITEMS });
  return ofRun(id, all);
}

async function ofRun<Change extends { readonly run_id: string | null }>(
  runId: string,
  changes: AsyncIterable<Change>,
): Promise<readonly Change[]> {
  const found: Change[] = [];
  let looked = 0;
  for await (const change of changes) {
    if (change.run_id === runId) found.push(change);
    if (++looked === LOOKED_AT_MAX) break;
  }
  return found;
}
