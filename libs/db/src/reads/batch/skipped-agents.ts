import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { refuseCursor } from '../keyset.ts';

/** An agent without a run in a batch. */
export interface SkippedAgent {
  readonly agent_id: string;
  readonly reason: string;
}

/**
 * Reads skipped agents of a batch after an agent, by agent id, each once: several lines of an upload, or runs of a retry, may
 * name it. A retry lists agents of runs that still exist.
 * Throws: `validation_failed` for an agent that is not among them. Index: `batch_agent_skipped`; for a retry primary keys.
 */
export async function listSkippedAgents(
  db: Database,
  batchId: string,
  page: { readonly after: string | null; readonly limit: number; readonly reason: string | null },
): Promise<readonly SkippedAgent[]> {
  const { after, limit, reason } = page;
  // A batch has rows in one of the tables only.
  const sources = [
    sql`select agent_id, skip_reason from batch_agent where batch_id = ${batchId}::uuid and skip_reason is not null`,
    sql`
      select r.agent_id, t.skip_reason
        from batch_retry_run t cross join lateral (select agent_id from run where id = t.run_id ${UNMERGED}) r
       where t.batch_id = ${batchId}::uuid and t.skip_reason is not null`,
  ];
  if (after !== null) {
    const { rows } = await sql<{ is_known: boolean }>`
      select ${sql.join(
        sources.map((source) => sql`exists (select from (${source}) s where s.agent_id = ${after}::uuid)`),
        sql` or `,
      )} as is_known
    `.execute(db);
    if (rows[0]?.is_known !== true) refuseCursor('after');
  }
  const { rows } = await sql<SkippedAgent>`${sql.join(
    sources.map(
      (source) => sql`
        (select s.agent_id, min(s.skip_reason) as reason from (${source}) s
          where ${reason === null ? sql`true` : sql`s.skip_reason = ${reason}`}
            and ${after === null ? sql`true` : sql`s.agent_id > ${after}::uuid`}
          group by s.agent_id order by s.agent_id limit ${limit})`,
    ),
    sql` union all `,
  )} order by agent_id limit ${limit}`.execute(db);
  return rows;
}
