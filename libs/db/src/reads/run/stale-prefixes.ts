import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';

/** The parts of a prompt besides messages that may differ between steps of a run. */
const SHOWN = [
  'context_from_seq',
  'summary_to_seq',
  'block_ids',
  'block_revisions',
  'block_labels',
  'passages',
  'passage_tags',
] as const;

/** True when two steps of a run have the same system prompt and the same first messages. */
export function showsTheSame(step: string, other: string): RawBuilder<boolean> {
  const facts = (alias: string): RawBuilder<unknown> =>
    sql.join(SHOWN.map((column) => sql.ref(`${alias}.${column}`)));
  return sql`row(${facts(step)}) is not distinct from row(${facts(other)})`;
}

/**
 * Counts, by ordinal, the messages of requests up to the last answer to another prompt: another definition (model, system
 * prompt, tools), memory, counts, or first messages. Requests without such an answer are left out. Answered steps never
 * change, and so neither does the result.
 * Index: `step_by_provider_batch`, primary keys of message, run and step.
 */
export async function readStalePrefixes(
  db: Database,
  providerBatchId: string,
  ordinals: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  const { rows } = await sql<{ ordinal: number; count: number }>`
    select ordinal, max(place) filter (where is_stale)::int as count
      from (select s.ordinal, row_number() over (partition by s.ordinal order by m.seq) as place,
                   m.role = 'assistant' and m.step_number is not null and not coalesce(
                     other.definition_id = r.definition_id and ${showsTheSame('p', 's')}
                       -- Counts differ by the time when they were taken.
                       and (s.passages is null or m.run_id = s.run_id), false) as is_stale
              from step s
              cross join lateral (select * from run where id = s.run_id ${UNMERGED}) r
              join message m on m.conversation_id = r.conversation_id and m.shown
                            and m.seq between s.context_from_seq and s.context_to_seq
              left join run other on other.id = m.run_id
              left join step p on p.run_id = m.run_id and p.number = m.step_number and p.applied_at is not null
             where s.provider_batch_id = ${providerBatchId}::uuid and s.ordinal = any(${[...ordinals]}::int[])) shown
     group by ordinal
    having bool_or(is_stale)
  `.execute(db);
  return new Map(rows.map((row) => [row.ordinal, row.count]));
}
