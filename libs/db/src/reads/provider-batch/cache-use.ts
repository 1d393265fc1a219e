import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';

/** The use of the provider's cache by recent answers of a model. */
export interface CacheUse {
  readonly plain_tokens: number;
  readonly written_tokens: number;
  readonly read_tokens: number;
  /** Share of the tokens that the cache could have given, and gave. 0 without a measured answer. */
  readonly hit_rate: number;
  /** Number of answers by which the hit rate is measured. */
  readonly measured: number;
}

/** Provider batches and answers of each that are measured: the latest. */
const PROVIDER_BATCHES = 200;
const ANSWERS = 10;

/**
 * Measures the use of the cache by recent answers, by the provider's model name. The hit rate counts answers whose
 * requests marked all that the run's answer before had left in the cache, within the hour.
 * Index: `provider_batch_by_age`, `step_by_provider_batch`, primary key of `step`.
 */
export async function readCacheUse(db: Database): Promise<ReadonlyMap<string, CacheUse>> {
  const { rows } = await sql<CacheUse & { model: string }>`
    select model, sum(input_tokens)::float8 as plain_tokens, sum(written)::float8 as written_tokens, sum(read)::float8 as read_tokens,
           coalesce(sum(least(read, cached)) filter (where is_measured)::float8 / sum(cached) filter (where is_measured), 0) as hit_rate,
           count(*) filter (where is_measured)::int as measured
      from (
        select s.*, l.cached, coalesce(l.cached > 0 and s.written + s.read >= l.cached, false) as is_measured
          from (select id from provider_batch where state in ('ended', 'ingested') order by created_at desc limit ${PROVIDER_BATCHES}) p
         cross join lateral (
           select run_id, number, prompt_number, sealed_at, model, input_tokens, cache_read_tokens as read,
                  cache_write_5m_tokens + cache_write_1h_tokens as written
             from step where provider_batch_id = p.id and ordinal < ${ANSWERS} and applied_at is not null) s
          left join lateral (
           select cache_write_1h_tokens + cache_read_tokens as cached from step
            where run_id = s.run_id and number = s.number - 1 and prompt_number = s.prompt_number
              and applied_at > s.sealed_at - interval '1 hour' ${UNMERGED}) l on true) k
     where model is not null
     group by model
  `.execute(db);
  return new Map(rows.map(({ model, ...use }) => [model, use]));
}

/**
 * Reads the prompt tokens that the provider's cache holds since the answers before, by ordinal, for requests with ordinals in
 * [from, to); only answers of the last hour count. Index: `step_by_provider_batch`, primary key of `step`.
 */
export async function readCachedTokens(
  db: Database,
  providerBatchId: string,
  from: number,
  to: number,
): Promise<ReadonlyMap<number, number>> {
  const { rows } = await sql<{ ordinal: number; tokens: number }>`
    select s.ordinal, l.tokens
      from step s
     cross join lateral (
       select cache_write_1h_tokens + cache_read_tokens as tokens from step
        where run_id = s.run_id and number = s.number - 1 and prompt_number = s.prompt_number
          and applied_at > (select app_now()) - interval '1 hour' ${UNMERGED}) l
     where s.provider_batch_id = ${providerBatchId}::uuid and s.ordinal >= ${from} and s.ordinal < ${to} and l.tokens > 0
  `.execute(db);
  return new Map(rows.map(({ ordinal, tokens }) => [ordinal, tokens]));
}
