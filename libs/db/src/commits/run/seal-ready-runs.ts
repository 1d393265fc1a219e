import { SHOWN_TAGS_MAX } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, UNMERGED } from '../../fragments.ts';
import { outputMaxOf, type OutputMaxima } from '../../reads/run/output-max.ts';
import { uuidArray } from '../../uuid-array.ts';
import { forceGenericPlan } from '../force-generic-plan.ts';

/** Maximum runs of a chunk: the answers ingested together. */
const CHUNK_RUNS_LARGE = 1_000;
/** Maximum chunks claimed by one statement. */
const CHUNKS_MAX = 2_000;

/** A provider batch to create. */
export interface NewProviderBatch {
  readonly id: string;
  readonly project_id: string;
  readonly credential: string;
  readonly nonce: string;
}

/** The result of a sealing. */
export interface Sealed {
  /** Steps of the provider batch; 0: none was created. */
  readonly requests: number;
  /** Runs of the claimed chunks, unsendable runs included, runs of locked chunks excluded. */
  readonly taken: number;
  /** Batches with a cap that may have steps in it: this transaction must reserve for those steps. */
  readonly budgeted_batch_ids: readonly string[];
  /** Some requests show memory of an earlier request: this transaction must store notices of what has changed since. */
  readonly carries_on: boolean;
}

/**
 * Seals up to about `limit` ready runs into a new provider batch in `building`.
 * A sealed run is in exactly one provider batch. Its requests show the memory of one step, the first since its begin or its
 * last summary. Its step row fixes everything its request shows (range of the
 * conversation, summary, block revisions and labels, counts, max_tokens), so that the prompt can be rebuilt byte by byte.
 * Whole chunks are claimed, longest due first, so the count may exceed `limit` by less than a chunk. `max_tokens` never
 * exceeds the model's limit in `maxima`.
 * Runs whose batch does not run, has no room, or has a pilot without them that runs, are left out of all chunks: a resume,
 * the sweep after a release, or the end of the pilot queues them again. Runs past their deadline, or asked to be cancelled, are left to the sweep.
 * Locks: chunks (skip locked), their batches (`for share`, so that a cancel and this wait for each other; capped batches
 * exclusively, because they may be paused), runs as they are written. Index: `run_chunk_due`.
 */
export async function sealReadyRuns(
  trx: Tx,
  batch: NewProviderBatch,
  limit: number,
  maxima: OutputMaxima = [],
): Promise<Sealed> {
  const runIds = await takeDueChunks(trx, limit);
  if (runIds.length === 0) return { requests: 0, taken: 0, budgeted_batch_ids: [], carries_on: false };
  await forceGenericPlan(trx);
  const ids = uuidArray(runIds);

  const { rows: batches } = await sql<{ id: string; budgeted: boolean; apply: 'auto' | 'review' }>`
    with theirs ${AS_FIRST} (select distinct batch_id as id from run where id = any(${ids}::uuid[])),
    shared ${AS_FIRST} (
      select b.id, b.apply from batch b where b.id in (select id from theirs) and not b.budgeted order by b.id for share),
    bound ${AS_FIRST} (
      select b.id, b.apply from batch b where b.id in (select id from theirs) and b.budgeted order by b.id for no key update)
    select id, apply, false as budgeted from shared union all select id, apply, true from bound
  `.execute(trx);
  const budgeted = batches.filter((row) => row.budgeted).map((row) => row.id);
  const short = await readShortBudgets(trx, budgeted);
  await sql`
    insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at)
    values (${batch.id}::uuid, ${batch.project_id}::uuid, ${batch.credential}, 'building', ${batch.nonce}, 0, app_now())
  `.execute(trx);
  const { rows } = await sql<{ count: number; carries_on: boolean | null; shows_counts: boolean | null }>`
    with sealed as (
      -- The update itself locks the rows: a separate lock costs a third more. The planner sees neither the number of keys
      -- nor the conditions: it expects few runs, never one or none, and never scans the whole table.
      update run r set state = 'in_flight', summarises_to_seq = null,
             prompt_number = coalesce(r.prompt_number, r.step_number), prompt_attempt = coalesce(r.prompt_attempt, r.attempt)
        from batch b
       where r.id = any((select ${ids}::uuid[])::uuid[]) and b.id = r.batch_id
         and coalesce(r.state = 'ready' and b.state = 'running' and coalesce(r.overdue_from > (select app_now()), true)
                      and r.batch_id not in (select unnest(${uuidArray(short)}::uuid[]))
                      and (b.pilot_state is distinct from 'running' or r.ordinal = any(b.pilot_ordinals)), false)
      returning r.id, r.project_id, r.agent_id, r.conversation_id, r.definition_id,
                r.step_number, r.attempt, r.token_boost, r.last_seq, r.prompt_number, r.prompt_attempt),
    numbered as (
      select s.*, (row_number() over (order by s.id) - 1)::int as ordinal from sealed s),
    asked as (
      -- Computed rows are joined to tables only, by their keys.
      select s.*, c.context_from_seq, c.summary_to_seq,
             coalesce(m.ids, '{}') as block_ids, coalesce(m.revisions, '{}') as block_revisions,
             m.labels as block_labels,
             (d.model_settings->>'max_output_tokens')::bigint * (1 << s.token_boost) as tokens,
             ${outputMaxOf(maxima)} as most
        from numbered s
        join conversation c on c.id = s.conversation_id
        join definition d on d.id = s.definition_id
       cross join lateral (
         -- Looked up per block by key: a join scans a table of blocks without statistics for each run.
         select array_agg(ab.block_id order by ab.position) as ids, array_agg(b.head_revision order by ab.position) as revisions,
                array_agg(ab.label order by ab.position) as labels
           from agent_block ab
          cross join lateral (select head_revision from block where id = ab.block_id ${UNMERGED}) b
          where ab.agent_id = s.agent_id) m),
    steps as (
      insert into step (project_id, run_id, number, attempt, provider_batch_id, ordinal, state,
                        context_from_seq, context_to_seq, summary_to_seq, block_ids, block_revisions, block_labels, max_tokens,
                        prompt_number, prompt_attempt, sealed_at)
      select project_id, id, step_number, attempt, ${batch.id}::uuid, ordinal, 'sealed',
             context_from_seq, last_seq, summary_to_seq, block_ids, block_revisions, block_labels,
             least(tokens, most, 2147483647), prompt_number, prompt_attempt, (select app_now())
        from asked
      returning (prompt_number, prompt_attempt) <> (number, attempt) as carries_on)
    select count(*)::int as count, bool_or(carries_on) as carries_on,
           (select bool_or(shows_counts) from definition
             where id = any(array(select distinct definition_id from sealed))) as shows_counts
      from steps
  `.execute(trx);
  const count = rows[0]?.count ?? 0;
  if (batches.some(({ apply }) => apply === 'review')) await showHeldBlocks(trx, batch.id);
  if (rows[0]?.shows_counts === true) await countPassages(trx, batch.id);
  if (count === 0) {
    await trx.deleteFrom('provider_batch').where('id', '=', batch.id).execute();
  } else {
    await trx
      .updateTable('provider_batch')
      .set({ request_count: count })
      .where('id', '=', batch.id)
      .execute();
  }
  return {
    requests: count,
    taken: runIds.length,
    budgeted_batch_ids: count === 0 ? [] : budgeted.filter((id) => !short.includes(id)),
    carries_on: rows[0]?.carries_on ?? false,
  };
}

/**
 * Claims due chunks, oldest first, with about `limit` runs in total, and locks hardly more, so that simultaneous seals
 * find the others. The number of chunks is estimated from the largest chunks, then from those found.
 */
async function takeDueChunks(trx: Tx, limit: number): Promise<readonly string[]> {
  const taken: (readonly string[])[] = [];
  let runs = 0;
  for (let wanted = Math.ceil(limit / CHUNK_RUNS_LARGE); ;) {
    const { rows } = await sql<{ run_ids: readonly string[] }>`
      with due ${AS_FIRST} (
        select id, run_ids, next_due_at from run_chunk
         where kind = 'ready' and next_due_at <= app_now()
         order by next_due_at, id
         limit ${wanted}
           for update skip locked),
      few as (
        select id from (
          select id, sum(cardinality(run_ids)) over (order by next_due_at, id) - cardinality(run_ids) as before from due) o
         where before < ${limit - runs})
      delete from run_chunk c using few where c.id = few.id
      returning c.run_ids
    `.execute(trx);
    for (const { run_ids } of rows) {
      taken.push(run_ids);
      runs += run_ids.length;
    }
    if (rows.length < wanted || runs >= limit) return taken.flat();
    wanted = Math.min(CHUNKS_MAX, Math.ceil(((limit - runs) * taken.length) / runs));
  }
}

/** Selects the locked batches without room until a release. */
async function readShortBudgets(trx: Tx, batchIds: readonly string[]): Promise<readonly string[]> {
  if (batchIds.length === 0) return [];
  // A separate statement: it sees commits from during the wait for the locks.
  const { rows } = await sql<{ batch_id: string }>`
    select batch_id from batch_budget where batch_id = any(${uuidArray(batchIds)}::uuid[]) and room = 'short'
  `.execute(trx);
  return rows.map((row) => row.batch_id);
}

/** Lets requests of batches under review show their agents' drafts in place of the original blocks. */
async function showHeldBlocks(trx: Tx, providerBatchId: string): Promise<void> {
  await sql`
    update step s set block_ids = m.ids, block_revisions = m.revisions, block_labels = m.labels
      from (select st.run_id, st.number, st.attempt, coalesce(o.ids, '{}') as ids, coalesce(o.revisions, '{}') as revisions,
                   o.labels
              from step st
              join run r on r.id = st.run_id
              join batch b on b.id = r.batch_id and b.apply = 'review'
             cross join lateral (
               select array_agg(d.id order by k.place, d.id) as ids, array_agg(d.head_revision order by k.place, d.id) as revisions,
                      array_agg(d.label order by k.place, d.id) as labels
                 from (select ab.block_id, ab.position as place, h.draft_id
                         from agent_block ab
                         left join held_change h
                           on h.batch_id = r.batch_id and h.agent_id = ab.agent_id and h.block_id = ab.block_id
                        where ab.agent_id = r.agent_id and h.kind is distinct from 'detached'
                       union all
                       select h.block_id, null, h.draft_id
                         from held_change h
                        where h.batch_id = r.batch_id and h.agent_id = r.agent_id and h.kind = 'created') k
                 join block d on d.id = coalesce(k.draft_id, k.block_id)) o
             where st.provider_batch_id = ${providerBatchId}::uuid) m
     where s.run_id = m.run_id and s.number = m.number and s.attempt = m.attempt
  `.execute(trx);
}

/**
 * Fixes the archival counts in requests that begin a prompt with them: the passages that their runs' searches can reach, and the most
 * frequent tags. Index: `passage_by_agent`.
 */
async function countPassages(trx: Tx, providerBatchId: string): Promise<void> {
  await sql`
    with told as (
      -- All steps of an archive together: computed rows are joined to tables only, by their keys.
      select r.agent_id, r.batch_id, array_agg(st.run_id) as run_ids, array_agg(st.number) as numbers,
             array_agg(st.attempt) as attempts
        from step st join run r on r.id = st.run_id
        join definition d on d.id = r.definition_id and d.shows_counts
       where st.provider_batch_id = ${providerBatchId}::uuid and (st.prompt_number, st.prompt_attempt) = (st.number, st.attempt)
       group by r.agent_id, r.batch_id),
    counted ${AS_FIRST} (
      select o.*, c.passages, c.tags
        from told o
       cross join lateral (
         with found as (
           select p.tags from passage p
            where p.agent_id = o.agent_id and (p.held_by_batch_id is null or p.held_by_batch_id = o.batch_id))
         select (select count(*) from found) as passages,
                array(select t.tag
                        from (select tag from found cross join unnest(tags) as tag
                               group by tag order by count(*) desc, tag limit ${SHOWN_TAGS_MAX}) t
                       order by t.tag) as tags) c)
    update step s set passages = c.passages, passage_tags = c.tags
      from counted c
     cross join lateral unnest(c.run_ids, c.numbers, c.attempts) as t(run_id, number, attempt)
     where s.run_id = t.run_id and s.number = t.number and s.attempt = t.attempt
  `.execute(trx);
}
