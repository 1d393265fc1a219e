import { toStorableText, type KeptPassage } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';
import { jsonRowChunks } from '../json-rows.ts';

/** Stores passages of archival memory. Inserts only; no statement without passages. */
export async function insertPassages(trx: Tx, kept: readonly KeptPassage[]): Promise<void> {
  const rows = kept.map((passage) => ({
    id: passage.passage_id,
    p: passage.project_id,
    a: passage.agent_id,
    c: passage.content,
    g: passage.tags,
    j: passage.batch_id,
    r: passage.run_id,
    n: passage.step_number,
    u: toStorableText(passage.tool_use_id),
    h: passage.held ? passage.batch_id : null,
  }));
  for (const { json } of jsonRowChunks(rows)) {
    await sql`
      insert into passage (id, project_id, agent_id, content, words, tags, batch_id, run_id, step_number, tool_use_id,
                           held_by_batch_id)
      select id, p, a, c, to_tsvector('english', c), g, j, r, n, u, h
        from json_to_recordset(${json}::json)
          as d(id uuid, p uuid, a uuid, c text, g text[], j uuid, r uuid, n int, u text, h uuid)
    `.execute(trx);
  }
}

/** Makes a batch's held passages visible to every run of their agents. Index: `passage_by_batch`. */
export async function acceptPassages(
  trx: Tx,
  batchId: string,
  agentIds: readonly string[] | null,
  exceptAgentIds: readonly string[] = [],
): Promise<number> {
  const { numAffectedRows } = await sql`
    update passage set held_by_batch_id = null
     where batch_id = ${batchId} and held_by_batch_id is not null and ${ofAgents(agentIds, exceptAgentIds)}
  `.execute(trx);
  return Number(numAffectedRows ?? 0);
}

/** Counts the passages that {@link acceptPassages} would make visible. Index: `passage_by_batch`. */
export async function countHeldPassages(
  trx: Tx,
  batchId: string,
  agentIds: readonly string[] | null,
  exceptAgentIds: readonly string[],
): Promise<number> {
  const { rows } = await sql<{ passages: number }>`
    select count(*)::int as passages from passage
     where batch_id = ${batchId} and held_by_batch_id is not null and ${ofAgents(agentIds, exceptAgentIds)}
  `.execute(trx);
  return rows[0]?.passages ?? 0;
}

/** Deletes the held or the accepted passages of a batch. Index: `passage_by_batch`. */
export async function deletePassages(
  trx: Tx,
  batchId: string,
  which: {
    readonly held: boolean;
    readonly agent_ids: readonly string[] | null;
    readonly except_agent_ids?: readonly string[];
  },
): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from passage
     where batch_id = ${batchId} and (held_by_batch_id is not null) = ${which.held}
       and ${ofAgents(which.agent_ids, which.except_agent_ids)}
  `.execute(trx);
  return Number(numAffectedRows ?? 0);
}

function ofAgents(agentIds: readonly string[] | null, exceptAgentIds: readonly string[] = []) {
  const isNamed = agentIds === null ? sql`true` : sql`agent_id = any(${[...agentIds]}::uuid[])`;
  return exceptAgentIds.length === 0
    ? isNamed
    : sql`${isNamed} and not agent_id = ${anyUuid(exceptAgentIds)}`;
}
