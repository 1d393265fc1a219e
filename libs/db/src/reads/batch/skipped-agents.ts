import type { Database } from '../../connect.ts';
import { refuseCursor } from '../keyset.ts';

/** An agent of a fleet without a run. */
export interface SkippedAgent {
  readonly agent_id: string;
  readonly reason: string;
}

/**
 * Reads skipped agents of a batch after an agent, by agent id, each once: several lines of an upload may name it. Throws: `validation_failed` for an agent that is not among
 * them. Index: `batch_agent_skipped`.
 */
export async function listSkippedAgents(
  db: Database,
  batchId: string,
  page: { readonly after: string | null; readonly limit: number; readonly reason: string | null },
): Promise<readonly SkippedAgent[]> {
  const { after, limit, reason } = page;
  const skipped = db
    .selectFrom('batch_agent')
    .select('agent_id')
    .where('batch_id', '=', batchId)
    .where('skip_reason', 'is not', null);
  if (after !== null && (await skipped.where('agent_id', '=', after).executeTakeFirst()) === undefined)
    refuseCursor('after');
  return skipped
    .$if(reason !== null, (query) => query.where('skip_reason', '=', reason))
    .$if(after !== null, (query) => query.where('agent_id', '>', after))
    .select((eb) => eb.fn.min('skip_reason').$notNull().as('reason'))
    .groupBy('agent_id')
    .orderBy('agent_id')
    .limit(limit)
    .execute();
}
