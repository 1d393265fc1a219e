import type { SqlConnection } from './sim-pool.ts';

export interface Violation {
  readonly name: string;
  readonly detail: string;
}

/** Queries for rows that violate an invariant. The last column of a row identifies it. */
const ALWAYS: Readonly<Record<string, string>> = {
  applied_once: `select run_id || '/' || number from step where applied_at is not null group by run_id, number having count(*) > 1`,
  steps_gapless: `select r.id::text from run r where (select coalesce(max(number), 0) <> count(distinct number) from step where run_id = r.id)`,
  one_live_attempt: `select run_id || '/' || number from step where state in ('sealed', 'answered') group by run_id, number having count(*) > 1`,
  steps_within_limit: `select s.run_id::text from step s join run r on r.id = s.run_id where s.number > r.max_steps + r.summary_steps`,
  messages_gapless: `select conversation_id::text from message group by 1 having max(seq) - min(seq) + 1 <> count(*)`,
  last_seq_is_last: `select r.id::text from run r where r.last_seq is not null
    and r.last_seq <> (select max(seq) from message m where m.conversation_id = r.conversation_id and m.run_id = r.id)`,
  runs_do_not_mix: `select a.id || ' with ' || b.id from run a join run b on b.conversation_id = a.conversation_id and b.id > a.id
    where a.first_seq is not null and b.first_seq is not null and a.first_seq <= b.last_seq and b.first_seq <= a.last_seq`,
  one_holder: `select conversation_id::text from run where started_at is not null and ended_at is null group by 1 having count(*) > 1`,
  holder_is_named: `select r.id::text from run r join conversation c on c.id = r.conversation_id
    where r.started_at is not null and r.ended_at is null and c.run_id is distinct from r.id`,
  in_flight_is_sealed: `select r.id::text from run r where r.state = 'in_flight' and not exists (
    select from step s where s.run_id = r.id and s.number = r.step_number and s.attempt = r.attempt and s.state = 'sealed')`,
  sealed_is_in_flight: `select s.run_id::text from step s join run r on r.id = s.run_id
    where s.state = 'sealed' and (r.state, r.step_number, r.attempt) is distinct from ('in_flight', s.number, s.attempt)`,
  sealed_in_live_batch: `select s.run_id::text from step s left join provider_batch p on p.id = s.provider_batch_id
    where s.state = 'sealed' and (p.id is null or p.state in ('ingested', 'rejected', 'orphan_paid'))`,
  doubted_has_open_step: `select p.id || ' ' || p.state from provider_batch p where p.state in ('submitting', 'unknown')
    and not exists (select from step s where s.provider_batch_id = p.id and s.state = 'sealed')`,
  request_count: `select p.id::text from provider_batch p where p.state not in ('rejected', 'orphan_paid')
    and p.request_count <> (select count(*) from step where provider_batch_id = p.id)`,
  acting_in_one_chunk: `select u.id::text from run_chunk c cross join unnest(c.run_ids) u(id)
    where c.kind = 'tools' group by u.id having count(*) > 1`,
  tools_chunk_is_acting: `select u.id::text from run_chunk c cross join unnest(c.run_ids) u(id) join run r on r.id = u.id
    where c.kind = 'tools' and r.state <> 'acting'`,
  acting_has_chunk: `select r.id::text from run r where r.state = 'acting' and not exists (
    select from run_chunk c where c.kind = 'tools' and r.id = any(c.run_ids))`,
  ready_has_chunk: `select r.id::text from run r join batch b on b.id = r.batch_id where r.state = 'ready' and b.state = 'running'
    and (b.pilot_state is distinct from 'running' or r.ordinal = any(b.pilot_ordinals))
    and not exists (select from run_chunk c where c.kind = 'ready' and r.id = any(c.run_ids))
    and not exists (select from batch_budget g where g.batch_id = b.id and g.room <> 'open')`,
  acting_is_answered: `select r.id::text from run r where r.state = 'acting' and not exists (
    select from step s where s.run_id = r.id and s.number = r.step_number and s.attempt = r.attempt and s.state = 'answered')`,
  revisions_contiguous: `select b.id::text from block b join block_revision v on v.block_id = b.id group by b.id
    having min(v.revision) <> 1 or max(v.revision) <> count(*) or max(v.revision) <> b.head_revision`,
  revision_per_call: `select run_id || '/' || step_number || '/' || tool_use_id from block_revision where run_id is not null
    group by block_id, run_id, step_number, tool_use_id having count(*) > 1`,
  tally_runs: `select b.id::text from batch b
    where (select coalesce(sum(completed), 0) || '/' || coalesce(sum(failed), 0) || '/' || coalesce(sum(cancelled), 0) || '/' || coalesce(sum(expired), 0)
             from batch_tally where batch_id = b.id)
       <> (select count(*) filter (where state = 'completed') || '/' || count(*) filter (where state = 'failed') || '/'
               || count(*) filter (where state = 'cancelled') || '/' || count(*) filter (where state = 'expired') from run where batch_id = b.id)`,
  tally_waiting: `select b.id::text from batch b
    where (select coalesce(sum(requires_action), 0) || '/' || coalesce(sum(queued), 0) || '/' || coalesce(sum(retrying), 0)
             from batch_tally where batch_id = b.id)
       <> (select count(*) filter (where state = 'requires_action') || '/' || count(*) filter (where state = 'queued') || '/' || count(failing_since)
             from run where batch_id = b.id)`,
  within_caps: `select batch_id::text from batch_budget
    where spent_nanousd + reserved_nanousd > max_cost_nanousd or spent_output_tokens + reserved_output_tokens > max_output_tokens`,
  reserved_for_open_steps: `select g.batch_id::text from batch_budget g
    where g.reserved_nanousd <> (select coalesce(sum(s.reserved_nanousd), 0) from step s join run r on r.id = s.run_id
                                  where r.batch_id = g.batch_id and s.state = 'sealed')
       or g.spent_nanousd <> (select coalesce(sum(s.cost_nanousd), 0) from step s join run r on r.id = s.run_id where r.batch_id = g.batch_id)`,
  failing_says_why: `select id::text from run
    where (state in ('ready', 'in_flight') and failures > 0 and failing_since is null)
       or (failing_since is not null and (attempt = 1 or state not in ('ready', 'in_flight')))`,
  asked_before_acting: `select c.run_id || '/' || c.tool_use_id from tool_call c
    where c.state in ('running', 'succeeded', 'unknown')
      and c.verdict is distinct from case c.awaits when 'approval' then 'approved' when 'answer' then 'answered' else c.verdict end`,
  rules_kept: `select r.id || ' ' || (u.value->>'tool_name') from run r join definition d on d.id = r.definition_id
    cross join lateral json_array_elements(d.tool_rules) u(value)
    where u.value->>'type' = 'max_count_per_step' and (u.value->>'max_count_limit')::int < (
      select count(*) from tool_call c where c.run_id = r.id and c.tool_name = u.value->>'tool_name' and c.kind <> 'rejected'
         and c.verdict is distinct from 'denied')`,
  tally_steps: `select b.id::text from batch b
    where (select coalesce(sum(steps), 0) || '/' || coalesce(sum(input_tokens), 0) || '/' || coalesce(sum(output_tokens), 0) || '/' || coalesce(sum(cost_nanousd), 0)
             from batch_tally where batch_id = b.id)
       <> (select count(*) filter (where s.applied_at is not null) || '/' || coalesce(sum(s.input_tokens), 0) || '/' || coalesce(sum(s.output_tokens), 0)
               || '/' || coalesce(sum(s.cost_nanousd), 0) from step s join run r on r.id = s.run_id where r.batch_id = b.id)`,
  tally_calls: `select b.id::text from batch b
    where (select coalesce(sum(tool_calls), 0) || '/' || coalesce(sum(ended_tool_calls), 0) || '/' || coalesce(sum(failed_tool_calls), 0)
               || '/' || coalesce(sum(unknown_tool_calls), 0) from batch_tally where batch_id = b.id)
       <> (select count(*) || '/' || count(*) filter (where c.state in ('succeeded', 'failed', 'unknown')) || '/'
               || count(*) filter (where c.state in ('failed', 'unknown')) || '/' || count(*) filter (where c.state = 'unknown')
             from tool_call c join run r on r.id = c.run_id where r.batch_id = b.id)`,
  pilot_goes_alone: `select r.id::text from batch b join run r on r.batch_id = b.id
    where b.pilot_state in ('running', 'waiting', 'stopped') and not coalesce(r.ordinal = any(b.pilot_ordinals), false)
      and exists (select from step where run_id = r.id)`,
  pilot_ends_decided: `select b.id::text from batch b where b.pilot_ended_at is not null and exists (
    select from run r where r.batch_id = b.id and r.ordinal = any(b.pilot_ordinals) and r.ended_at is null)`,
  ended_batch_has_no_open_run: `select b.id::text from batch b where b.completed_at is not null
    and exists (select from run where batch_id = b.id and ended_at is null)`,
  no_seal_after_cancel: `select s.run_id::text from step s join run r on r.id = s.run_id join batch b on b.id = r.batch_id
    where b.cancel_requested_at is not null and s.sealed_at > b.cancel_requested_at`,
  calls_answered_once: `with content as (
      select m.conversation_id, m.seq, m.shown, e.value from message m cross join lateral json_array_elements(m.content) e(value)),
    uses as (select conversation_id, seq, value->>'id' as id from content where value->>'type' = 'tool_use' and shown),
    results as (select conversation_id, seq, value->>'tool_use_id' as id from content where value->>'type' = 'tool_result' and shown)
    select coalesce(u.id, r.id) from uses u full join results r on r.conversation_id = u.conversation_id and r.id = u.id and r.seq = u.seq + 1
      left join run o on o.conversation_id = coalesce(u.conversation_id, r.conversation_id) and o.state in ('acting', 'requires_action') and o.last_seq = u.seq
     where (u.id is null or r.id is null) and o.id is null`,
  results_once: `select e.value->>'tool_use_id' from message m cross join lateral json_array_elements(m.content) e(value)
    where e.value->>'type' = 'tool_result' group by m.conversation_id, m.seq, e.value->>'tool_use_id' having count(*) > 1`,
};

/** Queries for rows that violate an invariant once all work is done. */
const AT_THE_END: Readonly<Record<string, string>> = {
  batches_ended: `select id || ' ' || state from batch where completed_at is null`,
  runs_ended: `select id || ' ' || state from run where ended_at is null`,
  provider_batches_ended: `select id || ' ' || state from provider_batch where state not in ('ingested', 'rejected', 'orphan_paid')`,
  no_chunk_left: `select id || ' ' || kind from run_chunk`,
  no_input_left: `select run_id::text from queued_input`,
  conversations_free: `select id::text from conversation where run_id is not null`,
  pilots_ended: `select id || ' ' || pilot_state from batch where pilot_state in ('running', 'waiting')`,
  calls_ended: `select run_id || '/' || step_number from tool_call where state in ('pending', 'running')`,
};

const unionOf = (queries: Readonly<Record<string, string>>): string =>
  Object.entries(queries)
    .map(([name, query]) => `(select '${name}' as name, d.detail from (${query}) d(detail) limit 3)`)
    .join(' union all ');

const ALWAYS_SQL = unionOf(ALWAYS);
const END_SQL = unionOf({ ...ALWAYS, ...AT_THE_END });

/** Names of all table checks. */
export const TABLE_CHECKS: readonly string[] = Object.keys({ ...ALWAYS, ...AT_THE_END });

/** Runs the queries in one statement and returns the violations. */
export async function findViolations(
  connection: SqlConnection,
  atTheEnd: boolean,
): Promise<readonly Violation[]> {
  const { rows } = await connection.query(atTheEnd ? END_SQL : ALWAYS_SQL);
  return rows as Violation[];
}
