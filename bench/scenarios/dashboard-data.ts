/** Stores by SQL what the dashboard is measured on: a large batch under way, and a batch with many held changes. */
import type pg from 'pg';

export const LIVE_BATCH = '01a00000-0000-7000-8000-000000000001';
export const REVIEW_BATCH = '01a00000-0000-7000-8000-000000000002';

export interface DashboardData {
  readonly runs: number;
  /** Held changes, each of an agent of its own. */
  readonly held: number;
  /** Kinds of errors. */
  readonly kinds: number;
}

/** A twentieth of the runs failed, the last twentieth waits, and the others are completed with a step each. */
const STORE = `
  insert into batch (id, project_id, state, total, accepted, name)
  select '${LIVE_BATCH}', id, 'running', $runs, $runs, 'A large night' from project;
  insert into run (id, project_id, batch_id, agent_id, conversation_id, definition_id, ordinal, custom_id, state, stop_reason, error,
                   max_steps, first_seq, last_seq, started_at, ended_at)
  select (i || '-0000-7000-8000-000000000000')::uuid, a.project_id, '${LIVE_BATCH}', a.id, (i || '-0000-7000-8001-000000000000')::uuid,
         '01a00000-0000-7000-8000-000000000003', n, 'task-' || n, s.state,
         case s.state when 'completed' then 'end_turn' when 'failed' then 'invalid_request' end,
         case s.state when 'failed' then json_build_object('message', 'The field ' || k || ' is missing.') end,
         10, case when s.state <> 'queued' then 1 end, case when s.state <> 'queued' then 2 end,
         case when s.state <> 'queued' then app_now() end, case when s.state <> 'queued' then app_now() end
    from (select id, project_id from agent order by id limit 1) a, generate_series(0, $runs - 1) n,
         lateral (select lpad(to_hex(n), 8, '0') as i, translate((n / 20 % $kinds)::text, '0123456789', 'abcdefghij') as k) t,
         lateral (select case when n % 20 = 7 then 'failed' when n >= $runs * 0.95 then 'queued' else 'completed' end as state) s;
  insert into step (project_id, run_id, number, attempt, provider_batch_id, ordinal, state, context_from_seq, context_to_seq,
                    block_ids, block_revisions, max_tokens, stop_reason, model, input_tokens, output_tokens, cost_nanousd,
                    sealed_at, applied_at, ended_at)
  select project_id, id, 1, 1, '01a00000-0000-7000-8000-000000000004', ordinal, 'done', 1, 1, '{}', '{}', 4096, 'end_turn',
         'claude-haiku-4-5', 1200, 160, 1000000, app_now(), app_now(), app_now()
    from run where state = 'completed';
  insert into run_failure (batch_id, run_id, project_id, failed_at, state, stop_reason, message, fingerprint)
  select batch_id, id, project_id, ended_at, 'failed', stop_reason, error ->> 'message',
         failure_group(stop_reason, error ->> 'message')
    from run where state = 'failed';
  insert into batch_tally (batch_id, slot, project_id, queued, completed, failed, steps, input_tokens, output_tokens, cost_nanousd,
                           version, last_ended_at)
  select batch_id, 0, project_id, count(*) filter (where state = 'queued'), count(*) filter (where state = 'completed'),
         count(*) filter (where state = 'failed'), count(*), count(*) * 1200, count(*) * 160, count(*) * 1000000, 1, app_now()
    from run group by batch_id, project_id;
  insert into batch_minute (batch_id, minute, slot, project_id, ended, failed, input_tokens, output_tokens, cost_nanousd)
  select t.batch_id, date_trunc('minute', app_now()) - m * interval '1 min', 0, t.project_id, t.completed / 120, t.failed / 120,
         0, 0, 0
    from batch_tally t, generate_series(0, 119) m;
  create table reviewed as
  select id as agent_id, project_id, n, gen_random_uuid() as block_id, gen_random_uuid() as draft_id,
         (i || '-0000-7000-8000-000000000000')::uuid as run_id, (i || '-0000-7000-8001-000000000000')::uuid as conversation_id,
         t.text as before, replace(replace(t.text, 'the phone', 'e-mail'), 'monthly', 'annual') as after
    from (select id, project_id, row_number() over (order by id) - 1 as n from agent) a,
         lateral (select lpad(to_hex(1073741824 + n), 8, '0') as i,
                         'Customer ' || n || ' lives in Oslo.' || E'\\n' || 'Prefers the phone in the morning.' || E'\\n'
                         || repeat('Asked about invoice ' || n || ', which was paid within the month.' || E'\\n', 8)
                         || 'Has the monthly plan.' as text) t
   where n < $held;
  insert into batch (id, project_id, state, total, accepted, name, apply, completed_at)
  select '${REVIEW_BATCH}', id, 'completed', $held, $held, 'A night to review', 'review', app_now() from project;
  insert into run (id, project_id, batch_id, agent_id, conversation_id, definition_id, ordinal, custom_id, state, stop_reason,
                   max_steps, first_seq, last_seq, started_at, ended_at)
  select run_id, project_id, '${REVIEW_BATCH}', agent_id, conversation_id, '01a00000-0000-7000-8000-000000000003', n, 'memory-' || n,
         'completed', 'end_turn', 10, 1, 2, app_now(), app_now()
    from reviewed;
  insert into batch_tally (batch_id, slot, project_id, completed, version)
  select '${REVIEW_BATCH}', 0, id, $held, 1 from project;
  insert into block (id, project_id, label, head_revision, deleted_at, held_by_batch_id)
  select block_id, project_id, 'summary', 1, null::timestamptz, null::uuid from reviewed
  union all
  select draft_id, project_id, 'summary', 2, app_now(), '${REVIEW_BATCH}'::uuid from reviewed;
  insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on, batch_id, run_id, step_number,
                              tool_use_id, resolution)
  select unnest(array[block_id, draft_id]), 1, project_id, before, 100000, false, null::int, null::uuid, null::uuid, null::int,
         null, null
    from reviewed
  union all
  select draft_id, 2, project_id, after, 100000, false, 1, '${REVIEW_BATCH}'::uuid, run_id, 1, 'toolu_1', 'clean' from reviewed;
  insert into agent_block (agent_id, block_id, label, project_id, position)
  select agent_id, block_id, 'summary', project_id, 0 from reviewed;
  insert into held_change (batch_id, agent_id, block_id, project_id, draft_id, kind, base_revision, base_label, run_id, step_number,
                           tool_use_id)
  select '${REVIEW_BATCH}', agent_id, block_id, project_id, draft_id, 'revised', 1, 'summary', run_id, 1, 'toolu_1' from reviewed;
  analyze`;

/** Fills a database that has an agent for each held change. */
export async function storeDashboardData(
  client: pg.Client,
  { runs, held, kinds }: DashboardData,
): Promise<void> {
  const script = STORE.replaceAll('$runs', String(runs))
    .replaceAll('$held', String(held))
    .replaceAll('$kinds', String(kinds));
  for (const statement of script.split(';\n')) await client.query(statement);
}

/** Ends another run of the live batch. */
export async function endRun(client: pg.Client): Promise<void> {
  await client.query(
    `update batch_tally set queued = queued - 1, completed = completed + 1, version = version + 1, last_ended_at = app_now()
      where batch_id = '${LIVE_BATCH}' and queued > 0`,
  );
}

/** Tells of the live batch by an event, as a pause would. */
export async function addEvent(client: pg.Client): Promise<void> {
  await client.query(
    `insert into event (project_id, type, batch_id, data)
     select project_id, 'batch.running', id, json_build_object('reason', null) from batch where id = '${LIVE_BATCH}'`,
  );
}
