import { commitBatch, type AcceptedBatch } from '../commits/batch/commit-batch.ts';
import type { NewBatch } from '../commits/batch/new-batch.ts';
import { distinctDefinitions, requestedDefinitions } from '../commits/batch/requested-definitions.ts';
import type { Tx } from '../connect.ts';
import { readRunAgents } from '../reads/catalog/agent-definitions.ts';

/** Accepts a batch without the checks of an intake. Throws: an error for a missing or changed agent. */
export async function acceptBatch(trx: Tx, projectId: string, batch: NewBatch): Promise<AcceptedBatch> {
  const requests = requestedDefinitions(batch.runs);
  const known = await readRunAgents(trx, projectId, distinctDefinitions(requests));
  const agents = requests.flatMap(({ key }) => known.get(key) ?? []);
  const accepted =
    agents.length === requests.length ? await commitBatch(trx, projectId, batch, requests, agents) : null;
  if (accepted === null) throw new Error('An agent of the batch does not exist or was changed.');
  return accepted;
}
