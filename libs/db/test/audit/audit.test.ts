import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  auditIn,
  auditInvariants,
  MONEY_INVARIANTS,
  type AuditScope,
  claimDueBatches,
  claimToolsChunk,
  commitBatchFinish,
  commitDecisions,
  commitIngested,
  commitRunsCancelled,
  commitUnknown,
  commitWithdrawn,
  DEFAULT_PROJECT_ID,
  inTransaction,
  openUpload,
  receiveLines,
  invariants,
  lockForFinish,
  lockRuns,
  markIdleBatches,
  newId,
  requestBatchCancel,
  rewindCursor,
  type Database,
  type NewAgent,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { accept as acceptUnderCursor, say } from '../cursor-nights.ts';
import { aRun, createTestAgents } from '../factories.ts';
import {
  accept,
  acceptFleet,
  act,
  ALICE,
  answer,
  callsTools,
  claim,
  DONE,
  end,
  ingest,
  later,
  leaseOf,
  moduleCall,
  newNonce,
  seal,
  sealAndEnd,
  submit,
  writeAhead,
} from '../worker-commits/night-shift.ts';
import { decideStep, decideFinish, RETRY_POLICY_DEFAULT, toCustomId } from '@nightshift/agent-core';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await live(db);
});
afterAll(() => database.close());

/** Fills a database with rows in every state that workers produce. */
async function live(on: Database): Promise<void> {
  // Ended: runs answered at once, with calls, with memory writes, and failed; another run waits behind.
  const fleet = await acceptFleet(on, 4);
  const [plain, calling, rewriting, failing] = fleet.run_ids as [string, string, string, string];
  await sql`update batch set callback_url = 'https://example.com/done' where id = ${fleet.id}::uuid`.execute(
    on,
  );
  await accept(on, [aRun(fleet.agent_ids[0]!, ['and then?'])]);
  const first = await sealAndEnd(on);
  await ingest(on, first, DONE, { run_ids: [plain] });
  await ingest(
    on,
    first,
    answer([
      { type: 'text', text: 'a\u0000' },
      { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} },
    ]),
    { run_ids: [calling] },
  );
  await rewriteMemory(on, rewriting, fleet.agent_ids[2]!);
  await ingest(
    on,
    first,
    { kind: 'errored', error_class: 'permanent', error_type: 'x', message: 'no' },
    { run_ids: [failing] },
  );
  await inTransaction(on, (trx) => commitIngested(trx, first, 0));
  await act(on, (await claimToolsChunk(on, ALICE))!, 'seen', { stdout: 'looked' });
  const second = await sealAndEnd(on);
  await ingest(on, second, DONE);
  await inTransaction(on, (trx) => commitIngested(trx, second, 1));
  await liveCursor(on);
  await markIdleBatches(on);
  for (const claimed of await claimDueBatches(on, ['running'], 10, ALICE)) {
    const lease = leaseOf('batch', claimed);
    await inTransaction(on, async (trx) =>
      commitBatchFinish(trx, lease, decideFinish(await lockForFinish(trx, lease)), 0),
    );
  }
  // Cancelled: a waiting run and a run at the provider.
  const cancelled = await acceptFleet(on, 1);
  await submit(on, (await seal(on)).id);
  const [waiting] = await createTestAgents(on, 1);
  const both = await accept(on, [aRun(waiting!.id), aRun(waiting!.id)]);
  for (const id of [cancelled.id, both.id])
    await inTransaction(on, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, id));
  for (const claimed of await claimDueBatches(on, ['cancelling'], 10, ALICE)) {
    await inTransaction(on, (trx) =>
      commitRunsCancelled(trx, leaseOf('batch', claimed), { from_ordinal: 0, limit: 100 }, 3),
    );
  }
  // Withdrawn once, then answered in part: acting, retrying, and in flight.
  const [agent] = await createTestAgents(on, 1);
  const going = await acceptFleet(on, 3);
  await accept(on, [aRun(agent!.id), aRun(agent!.id)]);
  const { id } = await seal(on);
  const ahead = await writeAhead(on, id);
  await inTransaction(on, (trx) => commitUnknown(trx, ahead, 'test', 0));
  const doubted = await claim(on, id, 'unknown');
  await inTransaction(on, (trx) => commitWithdrawn(trx, doubted, newNonce()));
  const last = await end(on, id);
  await ingest(on, last, callsTools(2), { run_ids: [going.run_ids[0]!] });
  await ingest(on, last, { kind: 'expired' }, { run_ids: [going.run_ids[1]!] });
  // A chunk taken over once; and a run that waits to be sealed.
  await later(on, 60_000, (trx) => claimToolsChunk(trx, ALICE));
  await later(on, 120_000, (trx) => claimToolsChunk(trx, ALICE));
  await acceptFleet(on, 1);
  await sql`insert into idempotency_key (project_id, key, request_sha256, batch_id)
    select project_id, 'key-' || id, 'aa', id from batch where id in (${fleet.id}::uuid, ${going.id}::uuid)`.execute(
    on,
  );
  await sql`insert into idempotency_key (project_id, key, request_sha256, made)
    select ${DEFAULT_PROJECT_ID}::uuid, 'made-' || n, 'aa', '{}' from generate_series(1, 2) as n`.execute(on);
  await sql`insert into result_line (provider_batch_id, line_number, project_id, reason, byte_length, excerpt)
    values (${last.id}::uuid, 1, ${DEFAULT_PROJECT_ID}::uuid, 'foreign', 2, '{}')`.execute(on);
  await sql`
    insert into batch_agent (batch_id, ordinal, agent_id, project_id)
    select batch_id, row_number() over (order by agent_id) - 1, agent_id, project_id
      from (select distinct batch_id, agent_id, project_id from run where batch_id = ${fleet.id}::uuid) r`.execute(
    on,
  );
  await sql`
    update batch b set source = '{}', agents_taken = (select count(*) from batch_agent a where a.batch_id = b.id)
     where id = ${fleet.id}::uuid`.execute(on);
  // A batch whose lines are staged, and an upload.
  const [received, upload] = [newId(), newId()];
  for (const id of [received, upload]) await openUpload(on, DEFAULT_PROJECT_ID, id);
  const batch = {
    id: received,
    callback_url: null,
    metadata: null,
    idempotency: null,
    has_capped_runs: false,
  };
  await inTransaction(on, (trx) =>
    receiveLines(trx, DEFAULT_PROJECT_ID, { ...batch, source: { kind: 'lines' }, lines: 3 }),
  );
  await sql`
    insert into staged_line (batch_id, project_id, ordinal, bytes, run)
    select id, ${DEFAULT_PROJECT_ID}::uuid, ordinal, 2, '{}' from unnest(array[${received}, ${upload}]::uuid[]) id, generate_series(0, 2) ordinal`.execute(
    on,
  );
  const schedule = newId();
  await sql`insert into schedule (id, project_id, name, cron, time_zone, body, state, tick_due_at, next_due_at)
    values (${schedule}::uuid, ${DEFAULT_PROJECT_ID}::uuid, 'nightly', '0 2 * * *', 'UTC', '{}', 'active', '2026-11-21T02:00:00Z',
      '2026-11-21T02:00:00Z')`.execute(on);
  await sql`insert into tick (schedule_id, due_at, project_id, batch_id, outcome)
    values (${schedule}::uuid, '2026-11-20T02:00:00Z', ${DEFAULT_PROJECT_ID}::uuid, ${fleet.id}::uuid, 'started')`.execute(
    on,
  );
  await sql`update batch set schedule_id = ${schedule}::uuid, tick_due_at = '2026-11-20T02:00:00Z' where id = ${fleet.id}::uuid`.execute(
    on,
  );
}

/** Runs nights under a cursor: a good night, a night whose second part failed, and an open night. Rewinds another cursor. */
async function liveCursor(on: Database): Promise<void> {
  const [agent] = (await createTestAgents(on, 1)) as [NewAgent];
  await say(on, agent, ['one', 'two', 'three', 'four']);
  const refused = answer([{ type: 'text', text: 'No.' }], { stop_reason: 'refusal' });
  for (const to_seqs of [[1], [2, 3]]) {
    const night = (await acceptUnderCursor(on, agent, { to_seqs }))!;
    const lease = await sealAndEnd(on);
    for (const [part, run_id] of night.run_ids.entries())
      await ingest(on, lease, part === 0 ? DONE : refused, { run_ids: [run_id] });
    await inTransaction(on, (trx) => commitIngested(trx, lease, 0));
  }
  await inTransaction(on, (trx) => rewindCursor(trx, DEFAULT_PROJECT_ID, agent.id, 'weekly', { seq: 2 }));
  expect(await acceptUnderCursor(on, agent)).not.toBeNull();
}

/** Applies an answer with a call that rewrites a block. */
async function rewriteMemory(on: Database, runId: string, agentId: string): Promise<void> {
  await inTransaction(on, async (trx) => {
    const run = [...(await lockRuns(trx, [runId])).values()][0]!;
    const outcome = answer([{ type: 'tool_use', id: 'toolu_m', name: 'memory_rethink', input: {} }]);
    const { block_id } = await trx
      .selectFrom('agent_block')
      .select('block_id')
      .where('agent_id', '=', agentId)
      .executeTakeFirstOrThrow();
    const write = {
      kind: 'revised',
      project_id: run.project_id,
      agent_id: agentId,
      description: null,
      resolution: 'clean',
      held: false,
      block_id,
      based_on_revision: 1,
      revision: 2,
      value: 'new',
      run_id: run.id,
      batch_id: run.batch_id,
      step_number: 1,
      tool_use_id: 'toolu_m',
    } as const;
    const { planned } = moduleCall(0, 'toolu_m');
    const calls = [
      { planned: { ...planned, tool_name: 'memory_rethink', kind: 'memory' as const }, outcome: null },
    ];
    const key = { run_id: run.id, number: 1, attempt: 1 };
    const decision = decideStep({ run, key, retry: RETRY_POLICY_DEFAULT, calls }, outcome, {
      carryOut: () => ({ outcome: { ok: true, result: 'ok' }, changes: [write] }),
    });
    if (decision.kind === 'refuse') throw new Error('refused');
    await commitDecisions(trx, [{ run, decision }], 1);
  });
}

/** True if the transaction sees a violation of the invariant. */
async function isBroken(trx: Tx, id: string): Promise<boolean> {
  const invariant = invariants().find((candidate) => candidate.id === id);
  if (invariant === undefined) throw new Error(`There is no invariant ${id}.`);
  const { rows } = await sql`select * from (${invariant.sql}) as broken limit 1`.execute(trx);
  return rows.length > 0;
}

/** All batches as a slice, and none as changed. */
const SLICE_OF_ALL: AuditScope = { since: new Date('2999-01-01'), slice: { after: null, to: null } };
/** All batches as changed, and an empty slice. */
const ALL_CHANGED: AuditScope = {
  since: new Date(0),
  slice: { after: '00000000-0000-0000-0000-000000000000', to: '00000000-0000-0000-0000-000000000000' },
};

/** True if an audit of a scope finds a violation of the invariant. */
async function isFound(trx: Tx, id: string, scope: AuditScope): Promise<boolean> {
  return (await auditIn(trx, { scope, among: (candidate) => candidate === id })).length > 0;
}

class Undone extends Error {}

/** True if the statements, which are rolled back, break the invariant. Triggers are off; a case may drop a constraint. */
async function breaks(id: string, statements: readonly string[], find = isBroken): Promise<boolean> {
  let broken = false;
  await inTransaction(db, async (trx) => {
    await sql`set local session_replication_role = replica`.execute(trx);
    let touched = 0n;
    for (const statement of statements) {
      touched += (await sql.raw(statement).execute(trx)).numAffectedRows ?? 0n;
    }
    expect(touched, 'the break found a row to break').toBeGreaterThan(0n);
    broken = await find(trx, id);
    throw new Undone();
  }).catch((error: unknown) => {
    if (!(error instanceof Undone)) throw error;
  });
  return broken;
}

const OTHER_PROJECT = `'00000000-0000-4000-8000-00000000000f'`;
const drop = (table: string, ...names: readonly string[]): string =>
  `alter table ${table} ${names.map((name) => `drop constraint ${name}`).join(', ')}`;
const one = (table: string, where: string, key = 'id'): string =>
  `${key} = (select ${key} from ${table} where ${where} order by ${key} limit 1)`;
const aRunIn = (state: string): string => one('run', `state = '${state}'`);

/** Quarantines a line with a reported usage for every step in a state. */
const putAside = (reason: string, usage: string, state: string): string => `
  insert into result_line (provider_batch_id, line_number, project_id, custom_id, reason, byte_length, excerpt, bill)
  select p.id, 100 + row_number() over (), p.project_id, p.nonce || '-' || substr(replace(s.run_id::text, '-', ''), 1, 26)
           || lpad(to_hex(s.number), 4, '0') || '00-' || s.attempt, '${reason}', 1, '',
         json_build_object('usage', '{"input_tokens": 0, "output_tokens": 0, "cache_write_5m_tokens": 0,
           "cache_write_1h_tokens": 0, "cache_read_tokens": 0}'::jsonb || '${usage}'::jsonb)
    from step s join provider_batch p on p.id = s.provider_batch_id where s.state = '${state}'`;

/** Gives batches in a state a pilot. */
const withPilot = (
  state: string,
  pilot: string,
  ordinals: string,
  result = `pilot_ended_at = now(), pilot_result = '{"completed": 1, "failed": 0, "cancelled": 0}'`,
): string =>
  `update batch set pilot = '{}', pilot_state = '${pilot}', pilot_ordinals = '${ordinals}', ${result} where state = '${state}'`;

const BREAKS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  I1b: {
    'an agent of a fleet has neither run nor reason': [
      `insert into batch_agent (batch_id, ordinal, agent_id, project_id)
       select batch_id, ordinal + 1000, gen_random_uuid(), project_id from batch_agent limit 1`,
    ],
    'an agent with a run has a reason': [
      `update batch_agent set skip_reason = 'nothing_new' where ordinal = 0`,
      `update batch set skipped = '{"nothing_new": 1}' where source::text = '{}'`,
    ],
    'a count of skipped agents is wrong': [
      `update batch set skipped = '{"nothing_new": 1}' where source::text = '{}'`,
    ],
    'a fleet leaves agents out': [
      `update batch set agents_taken = agents_taken - 1 where source::text = '{}'`,
    ],
  },
  I1c: {
    'a staged line is lost': [`delete from staged_line where ordinal = 1`],
    'a staged line has a run already': [
      `update batch set agents_taken = 1, accepted = 1, total = total + 1 where source ->> 'kind' = 'lines'`,
      `update run set batch_id = (select id from batch where source ->> 'kind' = 'lines'), ordinal = 0
        where id = (select id from run where state = 'queued' limit 1)`,
    ],
    'a line was skipped without a reason': [
      `update batch set agents_taken = 1, total = total - 1 where source ->> 'kind' = 'lines'`,
      `delete from staged_line l using batch b where b.id = l.batch_id and l.ordinal = 0`,
    ],
    'lines are staged for a batch that runs': [
      `update batch set state = 'running', total = 0, next_due_at = null where source ->> 'kind' = 'lines'`,
    ],
    'lines are staged for nothing': [`delete from upload`],
  },
  I1: {
    'a run is missing': [`delete from run where ${aRunIn('queued')}`],
    'a total is wrong': [
      `update batch set total = total + 1, accepted = accepted + 1 where ${one('batch', `state = 'running'`)}`,
    ],
    'a batch ends too early': [
      `update batch set state = 'completed', completed_at = now() where ${one('batch', `state = 'running' and exists (select from run where batch_id = batch.id and ended_at is null)`)}`,
    ],
  },
  I2: {
    'two attempts are applied': [
      `insert into step (project_id, run_id, number, attempt, provider_batch_id, ordinal, state, context_from_seq, context_to_seq, block_ids,
         block_revisions, max_tokens, sealed_at, applied_at, ended_at, stop_reason)
       select project_id, run_id, number, attempt + 1, provider_batch_id, 99, state, 0, 1, '{}', '{}', 1, sealed_at, applied_at, ended_at, stop_reason
         from step where state = 'done' limit 1`,
    ],
  },
  I3: {
    'a step in the middle is gone': [
      `delete from step where number = 1 and run_id = (select run_id from step where number = 2 limit 1)`,
    ],
    'a step lies behind': [`update step set number = 3 where number = 2`],
    'a run runs ahead of its steps': [`update run set step_number = 3 where ${aRunIn('ready')}`],
  },
  I4: {
    'a message is gone': [
      `delete from message where seq = 1 and conversation_id = (select conversation_id from message where seq = 3 limit 1)`,
    ],
    'a number is skipped': [
      `update message set seq = seq + 1 where (conversation_id, seq) in (select conversation_id, max(seq) from message group by 1 limit 1)`,
    ],
  },
  I4b: {
    'a run claims too much': [`update run set last_seq = last_seq + 1 where ${aRunIn('in_flight')}`],
    'a message belongs to another run': [
      `update message set run_id = (select id from run where state = 'completed' limit 1) where run_id = (select id from run where state = 'in_flight' limit 1)`,
    ],
    'a message of a run has no owner': [
      `update message set run_id = null where run_id = (select id from run where state = 'in_flight' limit 1)`,
    ],
  },
  I5: {
    'an answer to a call is gone': [
      `update message set content = '[]' where role = 'user' and step_number is not null and json_typeof(content) = 'array'`,
    ],
    'the message of results is gone': [`delete from message where role = 'user' and step_number is not null`],
    'an answer names another call': [
      `update message set content = '[{"type":"tool_result","tool_use_id":"toolu_other","content":"x"}]' where role = 'user' and step_number is not null and json_typeof(content) = 'array'`,
    ],
    'a call is answered twice': [
      `update message set content = '[{"type":"tool_result","tool_use_id":"toolu_m"},{"type":"tool_result","tool_use_id":"toolu_m"}]' where role = 'user' and step_number is not null and json_typeof(content) = 'array'`,
    ],
    'a call of a finished step is open': [
      `update tool_call set state = 'pending', ended_at = null where state = 'succeeded'`,
    ],
    'a result is held for ever': [`update tool_call set held_result = 'x' where state = 'succeeded'`],
  },
  I5b: {
    'a call was never written down': [`delete from tool_call where state = 'pending' and call_index = 1`],
    'a call was invented': [
      `insert into tool_call (project_id, run_id, step_number, call_index, tool_use_id, tool_name, kind, state) select project_id, run_id, step_number, 9, 'toolu_9', tool_name, kind, state from tool_call where state = 'pending' limit 1`,
    ],
  },
  I6: {
    'a rejected batch holds an open step': [
      `update provider_batch set state = 'rejected', next_due_at = null where id in (select provider_batch_id from step where state = 'sealed')`,
    ],
    'an ingested batch holds an open step': [
      `update provider_batch set state = 'ingested', ingested_at = now(), next_due_at = null, submitted_at = now(), ended_at = now() where id in (select provider_batch_id from step where state = 'sealed')`,
    ],
  },
  I7: {
    'two rows name one batch of the provider': [
      drop('provider_batch', 'provider_batch_provider_id_key'),
      `update provider_batch set provider_id = 'msgbatch_same' where provider_id is not null`,
    ],
    'two rows share a nonce': [
      drop('provider_batch', 'provider_batch_nonce_key'),
      `update provider_batch set nonce = 'samesame'`,
    ],
    'a doubted nonce is used by another': [
      `update provider_batch set nonce = (select nonce from doubted_submission) where ${one('provider_batch', 'id not in (select provider_batch_id from doubted_submission)')}`,
    ],
  },
  I8: {
    'two attempts are on their way': [
      `insert into step (project_id, run_id, number, attempt, provider_batch_id, ordinal, state, context_from_seq, context_to_seq, block_ids, block_revisions, max_tokens, sealed_at)
       select project_id, run_id, number, attempt + 1, provider_batch_id, 99, 'sealed', 0, 1, '{}', '{}', 1, sealed_at from step where state = 'sealed' limit 1`,
    ],
    'an applied step is sent again': [
      `insert into step (project_id, run_id, number, attempt, provider_batch_id, ordinal, state, context_from_seq, context_to_seq, block_ids, block_revisions, max_tokens, sealed_at)
       select project_id, run_id, number, attempt + 1, provider_batch_id, 99, 'sealed', 0, 1, '{}', '{}', 1, sealed_at from step where state = 'answered' limit 1`,
    ],
  },
  I9: {
    'a step of a batch is gone': [`delete from step where state = 'sealed'`],
    'places are not dense': [`update step set ordinal = ordinal + 1000 where ordinal = 0`],
    'a count is wrong': [`update provider_batch set request_count = request_count + 1`],
    'an ingested batch is not': [
      `update step set state = 'sealed', applied_at = null, ended_at = null where provider_batch_id in (select id from provider_batch where state = 'ingested')`,
    ],
  },
  I10: {
    'a step is sealed after the request': [
      `update step set sealed_at = now() + interval '1 hour' where run_id in (select r.id from run r join batch b on b.id = r.batch_id where b.state = 'cancelling')`,
    ],
    'a step is sealed after the request for its run': [
      `update run r set cancel_requested_at = '2020-01-01', overdue_from = case when ended_at is null then '2020-01-01'::timestamptz end
        where id in (select run_id from step)`,
    ],
  },
  I11: {
    'a run is still counted as queued': [`update batch_tally set queued = queued + 1`],
    'a failed call is not counted': [`update tool_call set state = 'failed' where state = 'succeeded'`],
    'a run is still counted as tried again': [`update batch_tally set retrying = retrying + 1`],
    'a run that is tried again is not counted': [
      `update run set failing_since = now(), last_error = '{}', next_attempt_at = now() where state = 'ready'`,
    ],
    'a run is counted twice': [`update batch_tally set completed = completed + 1 where completed > 0`],
    'tokens are lost': [`update batch_tally set output_tokens = output_tokens - 1 where output_tokens > 0`],
    'money is not booked': [`update step set cost_nanousd = cost_nanousd + 1 where state = 'done'`],
    'a slot is gone': [`delete from batch_tally where slot = 0`],
    'a call is not counted': [`delete from tool_call where state = 'succeeded'`],
  },
  I12: {
    'a provider batch is forgotten': [
      `update provider_batch set next_due_at = now() - interval '1 hour', lease_until = '-infinity', lease_owner = null where next_due_at is not null`,
    ],
    'a chunk is forgotten': [
      `update run_chunk set next_due_at = now() - interval '1 hour', lease_until = now() - interval '30 minutes'`,
    ],
    'a batch is forgotten': [
      `update batch set next_due_at = now() - interval '1 hour', lease_until = '-infinity', lease_owner = null where state = 'cancelling'`,
    ],
    'a callback is forgotten': [
      `update batch set next_due_at = now() - interval '1 hour', lease_until = '-infinity', lease_owner = null where completed_at is not null`,
    ],
    'a run past its deadline is forgotten': [
      `update run set deadline_at = now() - interval '1 hour', overdue_from = now() - interval '1 hour' where state = 'ready'`,
    ],
    'a run waits for a free conversation': [
      `update run set created_at = now() - interval '1 hour' where state = 'queued'`,
      `update conversation set run_id = null where id in (select conversation_id from run where state = 'queued')`,
    ],
    'a batch without open runs is forgotten': [
      `update batch set created_at = now() - interval '1 hour', next_due_at = null where state = 'running'`,
      `update run set state = 'failed', error = '{}', stop_reason = 'poison', ended_at = now() - interval '1 hour' where ended_at is null`,
    ],
    'a batch whose pilot has ended is forgotten': [
      `update batch set created_at = now() - interval '1 hour', next_due_at = null, pilot = '{}', pilot_state = 'running',
         pilot_ordinals = '{}' where state = 'running'`,
    ],
    'runs that wait for room are forgotten': [
      `insert into batch_budget (batch_id, project_id, room) select id, project_id, 'freed' from batch where state = 'running'`,
      `update batch set updated_at = now() - interval '1 hour'`,
      `update run set created_at = now() - interval '1 hour', ended_at = ended_at - interval '1 hour'`,
      `update step set sealed_at = sealed_at - interval '1 hour', applied_at = applied_at - interval '1 hour', ended_at = ended_at - interval '1 hour'`,
      `delete from run_chunk`,
    ],
  },
  I13: {
    'a step is sealed for an ended run': [
      `update step set sealed_at = now() + interval '1 hour' where state = 'done'`,
    ],
    'an answer is applied to an ended run': [
      `update step set applied_at = now() + interval '1 hour' where state = 'done'`,
    ],
    'an ended run writes': [
      `update message set created_at = now() + interval '1 hour' where run_id in (select id from run where ended_at is not null)`,
    ],
    'a call ends later than its run': [
      `update tool_call set ended_at = now() + interval '1 hour' where state = 'succeeded'`,
    ],
    'a run ends later than its batch': [
      `update run set ended_at = now() + interval '1 hour' where batch_id in (select id from batch where completed_at is not null)`,
    ],
  },
  I14: {
    'an ended run waits for an answer': [
      `update run set state = 'failed', error = '{}', stop_reason = 'poison', ended_at = now() where ${aRunIn('in_flight')}`,
    ],
    'a run is out without a step': [`delete from step where state = 'sealed'`],
    'a run waits for another attempt': [`update run set attempt = attempt + 1 where ${aRunIn('in_flight')}`],
    'a ready run has an answer open': [`update run set state = 'ready' where ${aRunIn('acting')}`],
  },
  I14b: {
    'a conversation lost its holder': [`update conversation set run_id = null where run_id is not null`],
    'an ended run holds on': [
      `update conversation set run_id = (select id from run where state = 'completed' limit 1) where ${one('conversation', 'run_id is null')}`,
    ],
    'a holder that is no run': [
      `update conversation set run_id = gen_random_uuid() where ${one('conversation', 'run_id is null')}`,
    ],
    'a run holds a conversation of others': [
      `update conversation set run_id = null where run_id = (select id from run where state = 'in_flight' order by id limit 1)`,
      `update conversation set run_id = (select id from run where state = 'in_flight' order by id limit 1) where ${one('conversation', 'run_id is null')}`,
    ],
    'one run holds two conversations': [
      `update conversation set run_id = (select id from run where state = 'in_flight' order by id limit 1) where ${one('conversation', 'run_id is null')}`,
    ],
  },
  I14d: {
    'a message waits beside a free conversation': [
      `insert into waiting_message (conversation_id, place, project_id, role, content)
       select id, 1, project_id, 'user', '[]' from conversation where run_id is null limit 1`,
    ],
    'a waiting message is gone': [
      `insert into waiting_message (conversation_id, place, project_id, role, content)
       select id, 2, project_id, 'user', '[]' from conversation where run_id is not null limit 1`,
    ],
  },
  I14c: {
    'the input of a waiting run is gone': [`delete from queued_input`],
    'a started run has its input still': [
      `insert into queued_input (run_id, project_id, messages) select id, project_id, '[]' from run where state = 'ready' limit 1`,
    ],
  },
  I15: {
    'an owner without an end': [
      `update provider_batch set lease_owner = 'ghost', lease_until = '-infinity', lease_epoch = 1 where lease_owner is null`,
    ],
    'an end without an owner': [
      `update credential set lease_owner = null, lease_until = now() + interval '1 minute'`,
    ],
    'more takeovers than claims': [`update run_chunk set takeovers = lease_epoch + 1`],
    'an ended batch has a holder': [
      `update provider_batch set lease_owner = 'alice', lease_until = now(), lease_epoch = 9 where state = 'ingested'`,
    ],
  },
  I16: {
    'a revision is gone': [`delete from block_revision where revision = 1`],
    'a head lags behind': [`update block set head_revision = 1 where head_revision = 2`],
    'a head runs ahead': [`update block set head_revision = head_revision + 1`],
  },
  I16b: {
    'a revision that a request shows is gone': [
      `delete from block_revision where block_id = (select block_ids[1] from step where state = 'sealed' and cardinality(block_ids) > 0 limit 1)`,
    ],
  },
  I16c: {
    'a revision names no call': [
      `update block_revision set tool_use_id = 'toolu_none' where run_id is not null`,
    ],
    'a revision names another batch': [
      `update block_revision set batch_id = gen_random_uuid() where run_id is not null`,
    ],
  },
  I16d: {
    'a new block names no call': [
      `insert into block_event (project_id, block_id, agent_id, kind, label, batch_id, run_id, step_number, place, tool_use_id)
       select project_id, block_id, (select id from agent limit 1), 'created', 'notes', batch_id, run_id, step_number, 0, 'toolu_none'
         from block_revision where run_id is not null limit 1`,
    ],
  },
  I16e: {
    'a deleted block is still attached': [
      `update block set deleted_at = now() where id in (select block_id from agent_block)`,
    ],
  },
  I16f: {
    'a change is marked without an edit': [
      `insert into held_change (batch_id, agent_id, block_id, project_id, draft_id, kind, run_id, step_number, tool_use_id, edited_at)
       select batch_id, agent_id, gen_random_uuid(), project_id, gen_random_uuid(), 'created', id, 1, 'toolu_1', now()
         from run limit 1`,
    ],
    'an accepted edit has another text than its draft': [
      `update block_revision set resolution = 'edited' where run_id is not null`,
    ],
  },
  I17: {
    'a batch has another moment than its tick': [
      `update batch set tick_due_at = now() where schedule_id is not null`,
    ],
    'a tick is ahead': [`update tick set due_at = '2026-11-21T02:00:00Z'`],
  },
  I18: {
    'a callback went out early': [
      `update batch set callback_attempts = 1, callback_url = 'x' where state = 'running'`,
    ],
    'its delivery is not due': [`update batch set next_due_at = null where callback_url is not null`],
    'sent without a try': [`update batch set callback_sent_at = now() where callback_url is not null`],
  },
  I19: {
    'a run takes a step too many': [
      drop('run', 'run_steps_bounded'),
      `update run set max_steps = 1 where step_number = 2 and state = 'completed'`,
    ],
  },
  I20: Object.fromEntries(
    [
      'run',
      'batch',
      'step',
      'message',
      'tool_call',
      'tool_call_output',
      'queued_input',
      'unstarted_input',
      'batch_tally',
      'run_chunk',
      'agent_block',
      'agent_tool',
      'block_revision',
      'idempotency_key',
      'tick',
      'agent',
      'conversation',
      'definition',
      'provider_batch',
      'result_line',
      'doubted_submission',
      'cursor_span',
      'cursor_rewind',
    ].map((table) => [`${table} of another project`, [`update ${table} set project_id = ${OTHER_PROJECT}`]]),
  ),
  I5c: {
    'a summary that is shown is gone': [
      `update conversation set summary_to_seq = 1, context_from_seq = 2 where ${one('conversation', 'true')}`,
    ],
    'a summary of no step': [
      `insert into conversation_summary (conversation_id, to_seq, project_id, hidden, summary, run_id, step_number)
       select conversation_id, 1, project_id, 1, 'x', id, 1 from run where ${aRunIn('completed')}`,
    ],
    'a step that summarised has left none': [
      `update step set is_summary = true where run_id = (select run_id from step where state = 'done' limit 1) and state = 'done'`,
    ],
    'a summary that a request shows is gone': [`update step set summary_to_seq = 1 where state = 'sealed'`],
    'a run counts too many': [`update run set summary_steps = 1 where ${aRunIn('completed')}`],
    'a run waits for a summary that was not asked for': [
      `update run set summarises_to_seq = 1 where ${aRunIn('in_flight')}`,
    ],
  },
  I21: {
    'a step without a run': [
      `update step set run_id = '01900000-0000-7000-8000-000000000000' where ${one('step', `state = 'sealed'`, 'run_id')}`,
    ],
    'a step without a provider batch': [
      `update step set provider_batch_id = gen_random_uuid() where state = 'sealed'`,
    ],
    'a message without a conversation': [
      `update message set conversation_id = '01900000-0000-7000-8000-000000000000' where ${one('message', 'true', 'conversation_id')}`,
    ],
    'a message without a run': [
      `update message set run_id = gen_random_uuid() where ${one('message', 'true', 'conversation_id')}`,
    ],
    'a call without a step': [`update tool_call set step_number = 77 where call_index = 0`],
    'an output without a call': [`update tool_call_output set call_index = 77`],
    'an output of an open call': [
      `insert into tool_call_output (project_id, run_id, step_number, call_index, attempts)
       select project_id, run_id, step_number, call_index, 2 from tool_call where state = 'pending' limit 1`,
    ],
    'a chunk without a run': [`update run_chunk set run_ids = run_ids || gen_random_uuid()`],
  },
  I21b: {
    'a run awaits no call': [`update run set state = 'requires_action' where ${aRunIn('acting')}`],
    'a run goes on without its caller': [
      `update tool_call set awaits = 'answer' where state = 'pending' and run_id in (select id from run where ${aRunIn('acting')})`,
    ],
  },
  I21a: {
    'a ready run is forgotten': [`delete from run_chunk where kind = 'ready'`],
    'an acting run is forgotten': [`delete from run_chunk where kind = 'tools'`],
    'an acting run is in two chunks': [
      `insert into run_chunk (id, project_id, kind, run_ids, next_due_at) select gen_random_uuid(), project_id, kind, run_ids, next_due_at from run_chunk where kind = 'tools'`,
    ],
  },
  I23: {
    'more is spent than the cap': [
      `insert into batch_budget (batch_id, project_id, max_cost_nanousd, spent_nanousd) select id, project_id, 1, 2 from batch`,
    ],
    'more tokens are held than the cap leaves': [
      `insert into batch_budget (batch_id, project_id, max_output_tokens, spent_output_tokens, reserved_output_tokens)
         select id, project_id, 10, 6, 5 from batch`,
    ],
  },
  I23b: {
    'a capped batch has no budget': [`update batch set budgeted = true`],
    'a budget holds what no open step does': [
      `update batch set budgeted = true where state = 'completed'`,
      `insert into batch_budget (batch_id, project_id, reserved_nanousd) select id, project_id, 1 from batch where budgeted`,
    ],
    'a sealed step holds nothing': [
      `update batch set budgeted = true`,
      `insert into batch_budget (batch_id, project_id, spent_nanousd, spent_output_tokens)
         select r.batch_id, r.project_id, sum(coalesce(s.cost_nanousd, 0)), sum(coalesce(s.output_tokens, 0))
           from run r left join step s on s.run_id = r.id group by r.batch_id, r.project_id`,
    ],
    'money is not booked': [
      `update batch set budgeted = true where state = 'completed'`,
      `insert into batch_budget (batch_id, project_id) select id, project_id from batch where budgeted`,
    ],
  },
  I23c: {
    'a run costs more than it may': [`update run set max_cost_nanousd = 1`],
    'a run writes more than it may': [`update run set max_output_tokens = 1`],
  },
  I23d: {
    'runs wait for room without a reservation to release': [
      `insert into batch_budget (batch_id, project_id, room) select id, project_id, 'short' from batch where state = 'running'`,
    ],
  },
  I24: {
    'what a line says that it cost is not booked': [
      `update step set error = '{"type": "unreadable"}' where state = 'errored'`,
      putAside('unreadable', '{"input_tokens": 7}', 'errored'),
    ],
    'nothing is booked of a step that was given up': [
      `update step set state = 'lost' where state = 'errored'`,
      putAside('too_long', '{"cache_read_tokens": 7}', 'lost'),
    ],
    'something else is': [
      `update step set error = '{"type": "unusable"}', output_tokens = 8 where state = 'errored'`,
      putAside('unusable', '{"output_tokens": 9}', 'errored'),
    ],
  },
  I27: {
    'a request shows the memory of a step that is gone': [
      `update step set prompt_number = number, prompt_attempt = attempt - 1`,
    ],
    'a run names a step that is gone': [`update run set prompt_number = 9, prompt_attempt = 9`],
  },
  I27b: {
    'a notice is no message': [
      `insert into memory_notice (run_id, seq, project_id, block_ids, block_revisions)
       select id, 999, project_id, '{}', '{}' from run`,
    ],
  },
  I25: {
    'a message is shown again': [`update cursor_span set from_seq = 0 where from_seq = 1 and to_seq = 2`],
    'a span is given to two completed runs': [
      `update run set stop_reason = 'end_turn' where id in (select run_id from cursor_span where to_seq = 3)`,
      `update cursor_span set from_seq = 1 where to_seq = 3`,
    ],
  },
  I25b: {
    'a span is gone': [`delete from cursor_span where from_seq = 0`],
    'a span begins behind a run that failed': [
      `update run set stop_reason = 'max_steps' where id in (select run_id from cursor_span where from_seq = 0)`,
    ],
    'a span begins behind held changes': [
      `insert into held_change (batch_id, agent_id, block_id, project_id, draft_id, kind, run_id, step_number, tool_use_id)
       select batch_id, agent_id, gen_random_uuid(), project_id, gen_random_uuid(), 'created', run_id, 1, 'toolu_1'
         from cursor_span where from_seq = 0`,
    ],
    'a span begins behind rejected changes': [
      `insert into held_change (batch_id, agent_id, block_id, project_id, draft_id, kind, run_id, step_number, tool_use_id, state,
                                settled_at)
       select batch_id, agent_id, gen_random_uuid(), project_id, gen_random_uuid(), 'created', run_id, 1, 'toolu_1', 'rejected', now()
         from cursor_span where from_seq = 0`,
    ],
    'a part is completed without the part before it': [
      `update run set stop_reason = 'end_turn' where id in (select run_id from cursor_span where to_seq = 3)`,
      `update run set stop_reason = 'refusal' where id in (select run_id from cursor_span where from_seq = 1 and to_seq = 2)`,
    ],
    'a message is passed over': [`update cursor_span set from_seq = from_seq + 1 where to_seq = 4`],
  },
  I28: {
    'an ended run is not listed': [`delete from ended_runs`],
    'an ended run is listed twice': [
      `insert into ended_runs select batch_id, slot, version - 1000, project_id, run_ids, ended_at from ended_runs`,
    ],
    'an open run is listed': [
      `insert into ended_runs select batch_id, 0, -1 - ordinal, project_id, array[id], now() from run where ended_at is null`,
    ],
    'a version runs ahead': [`update ended_runs set version = version + 1000`],
  },
  I29: {
    'a failure is not noted': [`delete from run_failure`],
    'a completed run is noted': [
      `insert into run_failure select batch_id, id, project_id, now(), 'failed', 'poison', null, '' from run where state = 'completed'`,
    ],
    'another end is noted': [`update run_failure set failed_at = now() + interval '1 second'`],
  },
  I30: {
    'a run of a retry stands for none': [
      `update batch set retry_of = gen_random_uuid() where id in (select batch_id from run where state = 'completed')`,
    ],
    'a run of another batch is tried again': [
      `insert into batch_retry_run (batch_id, ordinal, project_id, run_id, skip_reason)
       select b.id, 0, b.project_id, r.id, 'no_input' from batch b join run r on r.batch_id <> b.id and r.ended_at is not null limit 1`,
    ],
    'a run has another custom_id than the run it stands for': [
      `update batch set retry_of = (select batch_id from run where state = 'failed' limit 1) where ${one('batch', `state = 'completed'`)}`,
      `insert into batch_retry_run (batch_id, ordinal, project_id, run_id, retry_run_id)
       select b.id, r.ordinal, b.project_id, (select id from run where state = 'failed' limit 1), r.id
         from batch b join run r on r.batch_id = b.id where b.retry_of is not null`,
      `update run set custom_id = 'x' where state = 'failed'`,
    ],
    'a run is tried again twice': [
      `insert into batch_retry_run (batch_id, ordinal, project_id, run_id, retry_run_id)
       select batch_id, 2 * ordinal + n, project_id, id, id from run, generate_series(0, 1) n where state = 'completed'`,
    ],
  },
  I31: {
    'a tag is not listed': [`update batch set tags = '{a}' where state = 'completed'`],
    'a batch is listed under a tag of another': [
      `insert into batch_label (project_id, label, created_at, batch_id) select project_id, 'tag b', created_at, id from batch`,
    ],
  },
  I26: {
    'a run goes beside a pilot': [withPilot('running', 'running', '{}', `state_reason = null`)],
    'a run goes before the end of a pilot': [
      withPilot('running', 'passed', '{}', `pilot_ended_at = now() + interval '1 hour', pilot_result = '{}'`),
    ],
  },
  I26b: {
    'a run of a pilot is missing': [withPilot('running', 'running', '{99}', `state_reason = null`)],
    'a pilot ends before its runs': [withPilot('running', 'passed', '{0}')],
    'a pilot forgets a run': [
      withPilot(
        ...(['completed', 'passed', '{0}'] as const),
        `pilot_ended_at = now(), pilot_result = '{"completed": 0, "failed": 0, "cancelled": 0}'`,
      ),
    ],
    'a batch waits without a reason': [
      `update batch set state = 'paused', state_reason = '' where state = 'running'`,
      withPilot('paused', 'waiting', '{}', `pilot_ended_at = now(), pilot_result = '{}'`),
    ],
  },
  I25c: {
    'a span without a run': [`update cursor_span set run_id = gen_random_uuid() where from_seq = 0`],
    'a span of another batch': [
      `update cursor_span set batch_id = (select max(id::text)::uuid from batch) where from_seq = 0`,
    ],
    'a run that reads what it was given': [
      `update run set conversation_id = (select conversation_id from agent where id = run.agent_id)
        where id in (select run_id from cursor_span)`,
    ],
    'a span beyond the conversation': [`update cursor_span set top_seq = 99`],
    'more rewinds than there were': [`update cursor_span set rewinds = 1 where from_seq = 0`],
  },
  I22: {
    'a key stands for two batches': [
      drop('idempotency_key', 'idempotency_key_pkey'),
      `update idempotency_key set key = 'same'`,
    ],
    'a batch has two keys': [
      `update idempotency_key set batch_id = (select batch_id from idempotency_key where batch_id is not null limit 1)
        where batch_id is not null`,
    ],
  },
};

test('a database with all kinds of rows breaks no invariant', async () => {
  expect(await auditInvariants(db)).toEqual([]);
  const states = await sql<{ state: string }>`select distinct state from run order by state`.execute(db);
  expect(states.rows.map((row) => row.state)).toEqual([
    'acting',
    'cancelled',
    'completed',
    'failed',
    'in_flight',
    'queued',
    'ready',
  ]);
});

test('no slice and no changed batch alone breaks an invariant', async () => {
  const { rows } = await sql<{ id: string }>`select id from batch order by id`.execute(db);
  expect(rows.length).toBeGreaterThan(1);
  expect(await auditInvariants(db, { scope: SLICE_OF_ALL })).toEqual([]);
  expect(await auditInvariants(db, { scope: ALL_CHANGED })).toEqual([]);
  const ends = [null, ...rows.map(({ id }) => id), null];
  for (const [at, to] of ends.entries()) {
    const slice = { after: ends[at - 1] ?? null, to };
    expect(await auditInvariants(db, { scope: { since: new Date('2999-01-01'), slice } })).toEqual([]);
  }
});

test('every invariant has a unique id and a case that breaks it', () => {
  const ids = invariants().map((invariant) => invariant.id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(Object.keys(BREAKS).sort()).toEqual([...ids].sort());
});

test('a quarantined and booked line breaks no invariant, and its step is found by the custom id as written', async () => {
  await expect(
    inTransaction(db, async (trx) => {
      await sql`update step set error = '{"type": "unusable"}', output_tokens = 9 where state = 'errored'`.execute(
        trx,
      );
      await sql.raw(putAside('unusable', '{"output_tokens": 9}', 'errored')).execute(trx);
      const [i24] = invariants().filter(({ id }) => id === 'I24');
      expect((await i24!.sql.execute(trx)).rows).toEqual([]);
      const { rows } = await sql<{
        custom_id: string;
        nonce: string;
        run_id: string;
        number: number;
        attempt: number;
      }>`
        select l.custom_id, p.nonce, s.run_id, s.number, s.attempt
          from result_line l join provider_batch p on p.id = l.provider_batch_id
          join step s on s.provider_batch_id = p.id and s.state = 'errored'
         where l.bill is not null`.execute(trx);
      for (const { custom_id, nonce, ...key } of rows) expect(custom_id).toBe(toCustomId(nonce, key));
      throw new Error('rolled back');
    }),
  ).rejects.toThrow('rolled back');
});

describe('a violation is found', () => {
  const cases = Object.entries(BREAKS).flatMap(([id, ways]) =>
    Object.entries(ways).map(([what, statements]) => ({ id, what, statements })),
  );
  test.each(cases)('$id: $what', async ({ id, statements }) => {
    expect(await breaks(id, statements)).toBe(true);
  });
  test.each(cases)('in a slice, $id: $what', async ({ id, statements }) => {
    expect(await breaks(id, statements, (trx) => isFound(trx, id, SLICE_OF_ALL))).toBe(true);
  });
  test.each(cases.filter(({ id }) => MONEY_INVARIANTS.has(id)))(
    'among changed batches, $id: $what',
    async ({ id, statements }) => {
      expect(await breaks(id, statements, (trx) => isFound(trx, id, ALL_CHANGED))).toBe(true);
    },
  );
});

test('a violation is reported with its promise and at most twenty rows per invariant', async () => {
  const broken = await openTestDatabase(inject('postgresUrl'));
  try {
    await acceptFleet(broken.db, 25);
    await sql`delete from run_chunk`.execute(broken.db);
    const violations = await auditInvariants(broken.db);
    expect(violations).toHaveLength(20);
    expect(violations[0]).toMatchObject({ id: 'I21a', row: { state: 'ready', chunks: 0 } });
    expect(violations[0]!.name).toMatch(/^a waiting run can be found/);
  } finally {
    await broken.close();
  }
});

test('due rows are judged by the time of the snapshot, however long the audit takes', async () => {
  const slow = await openTestDatabase(inject('postgresUrl'));
  try {
    await acceptFleet(slow.db, 1);
    await sql`update run_chunk set next_due_at = app_now() - interval '2 minutes'`.execute(slow.db);
    // An hour passes before the invariant is checked.
    await sql`
      create or replace function app_now() returns timestamptz language sql volatile parallel safe as
      $$ select clock_timestamp() + case when current_query() like '%as broken limit%' then interval '1 hour' else interval '0' end $$
    `.execute(slow.db);
    expect(await auditInvariants(slow.db)).toEqual([]);
    expect(await auditInvariants(slow.db, { stalledAfterMs: 60_000 })).toMatchObject([{ id: 'I12' }]);
  } finally {
    await slow.close();
  }
});

test('due and unheld rows count as stalled after the given time', async () => {
  const idle = await openTestDatabase(inject('postgresUrl'));
  try {
    await acceptFleet(idle.db, 1);
    await sql`update run_chunk set next_due_at = app_now() - interval '2 minutes'`.execute(idle.db);
    expect(await auditInvariants(idle.db)).toEqual([]);
    expect(await auditInvariants(idle.db, { stalledAfterMs: 60_000 })).toMatchObject([
      { id: 'I12', row: { what: 'run_chunk' } },
    ]);
    await sql`update run_chunk set lease_owner = 'alice', lease_epoch = 1, lease_until = app_now() + interval '1 minute'`.execute(
      idle.db,
    );
    expect(await auditInvariants(idle.db, { stalledAfterMs: 60_000 })).toEqual([]);
  } finally {
    await idle.close();
  }
});
