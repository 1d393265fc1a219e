import { agentsToHold, type HoldRule } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { acceptPassages } from './passages.ts';
import { lockConcerned, putInForce, readHeld, readLabels } from './settle-held-changes.ts';

/** Accepted changes of a portion of agents. */
export interface AcceptedPortion {
  readonly accepted: number;
  /** Passages of archival memory. */
  readonly passages: number;
  /** Agents whose changes stay held. */
  readonly held_agents: number;
  /** The agent after which the next portion starts; null after the last portion. */
  readonly after: string | null;
}

/**
 * Accepts the held changes of up to `limit` agents of a batch, in id order after `after`, except for the agents that the
 * rule or a conflict holds back: all of an agent's changes take effect, or none. Settled changes are skipped, so a repeated
 * portion changes nothing.
 * The caller has locked the batch, whose runs have ended.
 * Locks: the agents, then the blocks, in id order. Index: primary key of `held_change`, `passage_by_batch`.
 */
export async function acceptByRule(
  trx: Tx,
  batchId: string,
  rule: HoldRule,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<AcceptedPortion> {
  const agent_ids = await readAgentsWithHeld(trx, batchId, after, limit);
  const next = agent_ids.length === limit ? (agent_ids.at(-1) ?? null) : null;
  if (agent_ids.length === 0) return { accepted: 0, passages: 0, held_agents: 0, after: null };
  const filter = { agent_ids, block_ids: null };
  await lockConcerned(trx, batchId, filter);
  const held = await readHeld(trx, batchId, filter);
  const kept = agentsToHold(held, await readLabels(trx, held), rule);
  const accepted = held.filter((change) => !kept.has(change.agent_id));
  await putInForce(trx, batchId, accepted);
  const passages = await acceptPassages(
    trx,
    batchId,
    agent_ids.filter((id) => !kept.has(id)),
  );
  return { accepted: accepted.length, passages, held_agents: kept.size, after: next };
}

async function readAgentsWithHeld(
  trx: Tx,
  batchId: string,
  after: string | null,
  limit: number,
): Promise<readonly string[]> {
  const beyond = after === null ? sql`true` : sql`agent_id > ${after}::uuid`;
  const { rows } = await sql<{ agent_id: string }>`
    (select distinct agent_id from held_change where batch_id = ${batchId}::uuid and state = 'held' and ${beyond}
      order by agent_id limit ${limit})
    union
    (select distinct agent_id from passage where batch_id = ${batchId}::uuid and held_by_batch_id is not null and ${beyond}
      order by agent_id limit ${limit})
    order by agent_id limit ${limit}
  `.execute(trx);
  return rows.map((row) => row.agent_id);
}
