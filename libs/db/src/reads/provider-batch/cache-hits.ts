import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Prompt tokens that the provider's cache could have given for recent answers of a model. */
export interface CacheHits {
  /** Share that it gave. */
  readonly share: number;
  /** Number of answers measured. */
  readonly answers: number;
}

/** Provider batches and answers of each that are measured: the latest. */
const PROVIDER_BATCHES = 50;
const ANSWERS = 40;

/**
 * Measures the cache hits of recent answers by the provider's model name. Only answers count whose request marked all that
 * the run's answer before had left in the cache, within the hour.
 * Index: `provider_batch_by_age`, `step_by_provider_batch`, primary key of `step`.
 */
export async function readCacheHits(db: Database): Promise<ReadonlyMap<string, CacheHits>> {
  const { rows } = await sql<CacheHits & { model: string }>`
    select s.model, sum(least(s.cache_read_tokens, l.cached))::float8 / sum(l.cached) as share, count(*)::int as answers
      from (select id from provider_batch where state in ('ended', 'ingested') order by created_at desc limit ${PROVIDER_BATCHES}) p
     cross join lateral (
       select * from step where provider_batch_id = p.id and ordinal < ${ANSWERS} and number > 1 and applied_at is not null) s
     cross join lateral (
       select cache_write_1h_tokens + cache_read_tokens as cached from step
        where run_id = s.run_id and number = s.number - 1 and prompt_number = s.prompt_number
          and applied_at > s.sealed_at - interval '1 hour') l
     where l.cached > 0 and s.cache_write_1h_tokens + s.cache_read_tokens >= l.cached
     group by s.model
  `.execute(db);
  return new Map(rows.map(({ model, ...hits }) => [model, hits]));
}
