import type { UntoldChange } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, UNMERGED } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';

/** A change of a block that a run has not been told about. */
export interface UntoldChangeOfRun extends UntoldChange {
  readonly run_id: string;
  /** The last message shown is the model's own, which it continues: no message may follow it. */
  readonly is_open_turn: boolean;
}

/**
 * Reads the runs of newly sealed requests whose blocks have changed since their latest step, by their own writes or others.
 * Only requests that show the memory of an earlier request count.
 * Index: `step_by_provider_batch`, primary key of `step`.
 */
export async function readRunsWithChanges(trx: Tx, providerBatchId: string): Promise<readonly string[]> {
  const { rows } = await sql<{ run_id: string }>`
    select s.run_id
      from step s
     cross join lateral (
       select block_ids, block_revisions, block_labels from step
        where run_id = s.run_id and (number, attempt) < (s.number, s.attempt)
        order by number desc, attempt desc limit 1) l
     where s.provider_batch_id = ${providerBatchId}::uuid and (s.prompt_number, s.prompt_attempt) <> (s.number, s.attempt)
       and (s.block_ids, s.block_revisions, s.block_labels) is distinct from (l.block_ids, l.block_revisions, l.block_labels)
     order by s.ordinal
  `.execute(trx);
  return rows.map(({ run_id }) => run_id);
}

/**
 * Reads the changes by others to the memory of runs with newly sealed requests; texts included, so the caller bounds the
 * number of runs.
 * A run knows the blocks of its prompt, or of its last notice, and its own writes as far as they met no other write. Own
 * creations, renames and detachments are known too.
 * Index: primary keys; `held_change_draft_id_key`.
 */
export async function readUntoldChanges(
  trx: Tx,
  providerBatchId: string,
  runIds: readonly string[],
): Promise<readonly UntoldChangeOfRun[]> {
  const { rows } = await sql<UntoldChangeOfRun>`
    with carrying ${AS_FIRST} (
      select s.run_id, s.block_ids, s.block_revisions, s.block_labels, s.prompt_number, s.prompt_attempt, s.context_from_seq,
             s.context_to_seq
        from unnest((select ${uuidArray(runIds)}::uuid[])) as u(run_id)
       cross join lateral (
         select * from step
          where run_id = u.run_id and provider_batch_id = ${providerBatchId}::uuid and state = 'sealed' ${UNMERGED}) s),
    known ${AS_FIRST} (
      select c.*, r.batch_id, r.agent_id, r.conversation_id, coalesce(n.block_ids, p.block_ids) as known_ids,
             coalesce(n.block_revisions, p.block_revisions) as known_revisions,
             case when n.block_ids is null then p.block_labels else n.block_labels end as known_labels
        from carrying c
       cross join lateral (select batch_id, agent_id, conversation_id from run where id = c.run_id ${UNMERGED}) r
       cross join lateral (
         select block_ids, block_revisions, block_labels, context_to_seq from step
          where run_id = c.run_id and number = c.prompt_number and attempt = c.prompt_attempt ${UNMERGED}) p
        left join lateral (
         select block_ids, block_revisions, block_labels from memory_notice
          where run_id = c.run_id and seq > p.context_to_seq order by seq desc limit 1) n on true),
    -- A draft and its original are one block.
    present as (
      select k.run_id, coalesce(h.block_id, u.id) as key, u.*, h.base_revision, h.kind as held, h.run_id as held_by
        from known k cross join lateral unnest(k.block_ids, k.block_revisions, k.block_labels) with ordinality as u(id, revision, label, place)
        left join held_change h on h.draft_id = u.id),
    past as (
      select k.run_id, coalesce(h.block_id, u.id) as key, u.*
        from known k cross join lateral unnest(k.known_ids, k.known_revisions, k.known_labels) with ordinality as u(id, revision, label, place)
        left join held_change h on h.draft_id = u.id),
    pairs as (
      select run_id, key, a.id, a.revision, a.label, a.place, a.held_by, b.id as past_id, b.revision as past_revision,
             b.label as past_label,
             -- The revision of the present block that holds the text known before own writes.
             case when b.id = a.id then b.revision
                  when b.revision = a.base_revision and a.held is not null then 1
                  when b.id is null and exists (
                    select from block_revision f where f.block_id = a.id and f.revision = 1 and f.run_id = a.run_id) then 1 end as from_revision
        from present a full join past b using (run_id, key)),
    compared as (
      select p.*,
             case when p.from_revision is null then null else coalesce((
               select min(f.revision) - 1 from block_revision f
                where f.block_id = p.id and f.revision > p.from_revision and f.revision <= p.revision
                  and (f.run_id is distinct from p.run_id or f.resolution <> 'clean')), p.revision) end as known_revision
        from pairs p),
    untold as (
      select c.*, c.id is null as is_gone, c.past_id is null and c.known_revision is null as is_new,
             c.label <> c.past_label and c.held_by is distinct from c.run_id and not exists (
               select from block_event e
                where e.run_id = c.run_id and e.kind = 'renamed' and e.block_id = c.key and e.new_label = c.label) as is_renamed
        from compared c
       where case when c.id is not null then c.known_revision is distinct from c.revision or c.label is distinct from c.past_label
                  else not exists (select from block_event e where e.run_id = c.run_id and e.kind = 'detached' and e.block_id = c.key)
                   and not exists (
                     select from held_change h join known k on k.batch_id = h.batch_id and k.agent_id = h.agent_id
                      where k.run_id = c.run_id and h.block_id = c.key and h.kind in ('detached', 'dropped')) end)
    select u.run_id, coalesce(u.label, u.past_label) as label, case when u.is_renamed then u.past_label end as old_label,
           case when u.is_gone then 'detached' when u.is_new then 'attached' else 'changed' end as kind,
           case when not u.is_gone and not u.is_new then json_build_object('value', b.value, 'description', b.description,
             'char_limit', b.char_limit, 'read_only', b.read_only) end as before,
           case when not u.is_gone then json_build_object('value', a.value, 'description', a.description,
             'char_limit', a.char_limit, 'read_only', a.read_only) end as after,
           (select m.role = 'assistant' from message m
             where m.conversation_id = k.conversation_id and m.seq between k.context_from_seq and k.context_to_seq and m.shown
             order by m.seq desc limit 1) as is_open_turn
      from untold u
      join known k on k.run_id = u.run_id
      left join block_revision a on a.block_id = u.id and a.revision = u.revision
      left join block_revision b on b.block_id = case when u.known_revision is null then u.past_id else u.id end
                                and b.revision = coalesce(u.known_revision, u.past_revision)
     where u.is_gone or u.is_new or u.is_renamed or (a.value, a.description, a.char_limit, a.read_only)
             is distinct from (b.value, b.description, b.char_limit, b.read_only)
     order by u.run_id, u.place nulls last, u.past_label
  `.execute(trx);
  return rows;
}
