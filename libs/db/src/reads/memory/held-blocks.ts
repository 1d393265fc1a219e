import type { StoredDraft } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/** Reads the drafts of agents in batches under review. The caller has locked the agents. Index: primary keys. */
export async function readHeldDrafts(
  trx: Tx,
  runs: readonly { readonly batch_id: string; readonly agent_id: string }[],
): Promise<readonly StoredDraft[]> {
  const payload = runs.map(({ batch_id, agent_id }) => ({ batch_id, agent_id }));
  const { rows } = await sql<StoredDraft>`
    select h.batch_id, h.agent_id, h.block_id as stands_for, h.kind, d.id as block_id, r.revision, d.label, r.description,
           r.value, r.char_limit, r.read_only, r.run_id as writer_run_id, o.conflict_policy
      from (select distinct * from json_to_recordset(${JSON.stringify(payload)}::json) as d(batch_id uuid, agent_id uuid)) w
      join held_change h on h.batch_id = w.batch_id and h.agent_id = w.agent_id
      join block d on d.id = h.draft_id
      join block o on o.id = h.block_id
      join block_revision r on r.block_id = d.id and r.revision = d.head_revision
     order by h.draft_id
  `.execute(trx);
  return rows;
}
