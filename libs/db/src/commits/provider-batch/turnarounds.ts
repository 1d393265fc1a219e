import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';

/** Turnarounds kept per credential and model. */
const KEPT = 64;
/** Requests of a provider batch that are looked up for its models. */
const SAMPLED_REQUESTS = 64;

/**
 * Selects the models of a provider batch: those of up to {@link SAMPLED_REQUESTS} requests, evenly spread. A rare model of a
 * large batch may be left out. Index: `step_by_provider_batch`.
 */
export function sampledModels(providerBatchId: string, requests: number): RawBuilder<unknown> {
  return sql`array(
    select distinct substr(d.model, position('/' in d.model) + 1)
      from generate_series(0, ${Math.min(requests, SAMPLED_REQUESTS) - 1}::int) place
     cross join lateral (
       select run_id from step
        where provider_batch_id = ${providerBatchId}::uuid
          and ordinal = (place * ${requests / Math.min(requests, SAMPLED_REQUESTS)}::float8)::int ${UNMERGED}) s
     cross join lateral (select definition_id from run where id = s.run_id ${UNMERGED}) r
     cross join lateral (select model from definition where id = r.definition_id ${UNMERGED}) d
     order by 1)`;
}

/** The turnaround of an ended provider batch. */
export interface NewTurnaround {
  readonly provider_batch_id: string;
  readonly duration_ms: number;
}

/**
 * Adds the turnarounds of ended provider batches to each of their models. A batch ends with its last request, so its
 * turnaround is the wait of every request in it.
 * Locks: the turnarounds, in order.
 */
export async function learnTurnarounds(trx: Tx, turnarounds: readonly NewTurnaround[]): Promise<void> {
  if (turnarounds.length === 0) return;
  await sql`
    insert into turnaround (credential, model, project_id, durations_ms)
    select p.credential, m.model, (array_agg(p.project_id))[1], (array_agg(d.duration_ms order by p.id desc))[1:${KEPT}::int]
      from json_to_recordset(${JSON.stringify(turnarounds)}::json) as d(provider_batch_id uuid, duration_ms int)
      join provider_batch p on p.id = d.provider_batch_id
     cross join unnest(p.models) as m(model)
     group by p.credential, m.model
     order by p.credential, m.model
    on conflict (credential, model) do update
       set durations_ms = (excluded.durations_ms || turnaround.durations_ms)[1:${KEPT}::int], updated_at = app_now()
  `.execute(trx);
}
