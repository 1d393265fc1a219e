import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { shownNow, type ShownIn } from './sealed-requests.ts';

/**
 * Counts, by ordinal, the messages of requests up to the last answer to another prompt: of an earlier run, or from before a
 * summary. Requests without such an answer are left out. The answers before a prompt never change, and so neither does the
 * result of a run's requests under that prompt.
 * Index: `step_by_provider_batch`, primary keys of message and run.
 */
export async function readStalePrefixes(
  db: Database,
  providerBatchId: string,
  ordinals: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  return readStalePrefixesOf(
    db,
    sql`s.provider_batch_id = ${providerBatchId}::uuid and s.ordinal = any(${[...ordinals]}::int[])`,
  );
}

/** Counts like {@link readStalePrefixes} for the requests of steps `s`. */
export async function readStalePrefixesOf(
  db: Database,
  where: RawBuilder<unknown>,
  isShown: ShownIn = shownNow,
): Promise<ReadonlyMap<number, number>> {
  const { rows } = await sql<{ ordinal: number; count: number }>`
    select ordinal, max(place) filter (where is_stale)::int as count
      from (select s.ordinal, row_number() over (partition by s.ordinal order by m.seq) as place,
                   m.role = 'assistant' and m.step_number is not null
                     and (m.run_id is distinct from s.run_id or m.step_number < s.prompt_number) as is_stale
              from step s
              cross join lateral (select conversation_id from run where id = s.run_id ${UNMERGED}) r
              join message m on m.conversation_id = r.conversation_id and ${isShown('m')}
                            and m.seq between s.context_from_seq and s.context_to_seq
             where ${where}) shown
     group by ordinal
    having bool_or(is_stale)
  `.execute(db);
  return new Map(rows.map((row) => [row.ordinal, row.count]));
}
