import { sql } from 'kysely';
import type { Database } from '../connect.ts';

/**
 * How many of the messages that requests show go up to the last one of a run with another model than the one that is asked
 * now, by the requests' ordinals. A request that shows none of such a run is left out. Served by step_by_provider_batch and
 * the primary keys of message, run and definition.
 */
export async function readForeignPrefixes(
  db: Database,
  providerBatchId: string,
  ordinals: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  const { rows } = await sql<{ ordinal: number; count: number }>`
    select ordinal, max(place) filter (where is_foreign)::int as count
      from (select s.ordinal, d.model <> own.model as is_foreign,
                   row_number() over (partition by s.ordinal order by m.seq) as place
              from step s join run r on r.id = s.run_id join definition own on own.id = r.definition_id
              join message m on m.conversation_id = r.conversation_id and m.shown
                            and m.seq between s.context_from_seq and s.context_to_seq
              left join run other on other.id = m.run_id
              left join definition d on d.id = other.definition_id
             where s.provider_batch_id = ${providerBatchId}::uuid and s.ordinal = any(${[...ordinals]}::int[])) shown
     group by ordinal
    having bool_or(is_foreign)
  `.execute(db);
  return new Map(rows.map((row) => [row.ordinal, row.count]));
}
