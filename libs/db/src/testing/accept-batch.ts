import { commitBatch, type AcceptedBatch } from '../commits/batch/commit-batch.ts';
import type { NewBatch } from '../commits/batch/new-batch.ts';
import { distinctDefinitions, requestedDefinitions } from '../commits/batch/requested-definitions.ts';
import type { Tx } from '../connect.ts';
import { readRunAgents } from '../reads/catalog/agent-definitions.ts';

/** Accepts a batch without the checks of an intake. Throws if an agent does not exist, or changes meanwhile. */
export async function acceptBatch(trx: Tx, projectId: string, batch: NewBatch): Promise<AcceptedBatch> {
  const wishes = requestedDefinitions(batch.runs);
  const known = await readRunAgents(trx, projectId, distinctDefinitions(wishes));
  const agents = wishes.flatMap(({ key }) => known.get(key) ?? []);
  const accepted =
    agents.length === wishes.length ? await commitBatch(trx, projectId, batch, wishes, agents) : null;
  if (accepted === null) throw new Error('An agent of the batch does not exist or was changed.');
  return accepted;
}
