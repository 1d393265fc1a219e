import { sql } from 'kysely';
import {
  providerBatchMachine,
  transition,
  type JsonObject,
  type ProviderBatchState,
} from '@nightshift/agent-core';
import { fenced, GIVE_LEASE_BACK, type Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, PLACE, UNMERGED, WITHOUT_UNSENT_PROMPT } from '../../fragments.ts';
import { lockRunsOf } from '../../locks/run/lock-runs.ts';
import { shareBatchesOf } from '../../locks/provider-batch/lock-sendable.ts';
import { releaseReservations } from '../batch/reservations.ts';
import { putTakenOut } from '../run/run-chunks.ts';
import { compactOrdinals } from '../run/take-out-steps.ts';
import type { TokenSample } from './token-calibrations.ts';
import { sampledModels } from './turnarounds.ts';

/*
 * The transitions of a provider batch up to the provider's answer. Each checks the epoch of the lease and the state that it
 * leaves. Throws: `fenced` when another worker has changed the row.
 */

/**
 * Commits the intent to send the body: from here on, silence means "unknown", never "not sent".
 * Returns the database time from which the provider's answer is measured.
 */
export async function commitWriteAhead(
  trx: Tx,
  lease: Lease,
  body: {
    readonly request_count: number;
    readonly bytes: number;
    readonly sha256: string;
    /** Requests whose answers calibrate tokens. Default: none. */
    readonly token_samples?: readonly TokenSample[];
    /** The provider's time of the send. Default: not measured. */
    readonly provider_sent_at?: Date | null;
    /** Its requests by batch. Default: not counted. */
    readonly steps_by_batch?: ReadonlyMap<string, number>;
    /** The cache marks of its requests, a byte each; empty: none has any. Default: not kept. */
    readonly cache_marks?: Buffer;
  },
): Promise<Date> {
  const to = transition(providerBatchMachine, 'building', 'write_ahead');
  const { rows } = await sql<{ submit_started_at: Date }>`
    update provider_batch
       set state = ${to}, body_bytes = ${body.bytes}, body_sha256 = ${body.sha256},
           token_samples = ${JSON.stringify(body.token_samples ?? [])}::json, submit_started_at = app_now(),
           provider_sent_at = ${body.provider_sent_at ?? null}::timestamptz,
           models = ${sampledModels(lease.id, body.request_count)}, cache_marks = ${body.cache_marks ?? null}::bytea
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'building'
       and request_count = ${body.request_count}
    returning submit_started_at
  `.execute(trx);
  const row = rows[0];
  if (row === undefined) throw fenced(lease);
  await noteSentSteps(trx, lease.id, body.steps_by_batch ?? new Map());
  return row.submit_started_at;
}

/** Stores how many steps of each batch the submission sends; the progress of the batches reads it. */
async function noteSentSteps(
  trx: Tx,
  providerBatchId: string,
  stepsByBatch: ReadonlyMap<string, number>,
): Promise<void> {
  if (stepsByBatch.size === 0) return;
  const rows = [...stepsByBatch].map(([batch_id, steps]) => ({ batch_id, steps }));
  await sql`
    insert into sent_steps (batch_id, provider_batch_id, project_id, nonce, steps)
    select d.batch_id, p.id, p.project_id, p.nonce, d.steps
      from json_to_recordset(${JSON.stringify(rows)}::json) as d(batch_id uuid, steps int)
     cross join provider_batch p where p.id = ${providerBatchId}::uuid
    on conflict (batch_id, provider_batch_id) do update set nonce = excluded.nonce, steps = excluded.steps
  `.execute(trx);
}

/**
 * Stores the provider's id after a create and releases the lease, due for the first poll.
 * Throws: `fenced`, also when another submission has adopted that batch: then {@link commitProven} corrects both.
 */
export async function commitSubmitted(
  trx: Tx,
  lease: Lease,
  remote: { readonly provider_id: string; readonly expires_at: Date | null },
  pollDelayMs: number,
): Promise<void> {
  const to = transition(providerBatchMachine, 'submitting', 'accept');
  await moved(
    lease,
    sql`
    update provider_batch
       set state = ${to}, provider_id = ${remote.provider_id}, expires_at = ${remote.expires_at}::timestamptz,
           submitted_at = app_now(), failures = 0, error = null,
           next_due_at = app_now() + ${pollDelayMs} * interval '1 millisecond', ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'submitting'
       and not exists (select 1 from provider_batch o where o.provider_id = ${remote.provider_id})
    returning 1`,
    trx,
  );
}

/**
 * Returns a refused batch to `building`, to be sent again after the delay under the same nonce. It is due earlier if one of
 * its steps becomes unsendable: its batch does not run, or its run's deadline passes.
 * Locks: the batches for share, then the provider batch, so that either a pause or cancel finds it put off, or this finds
 * the pause.
 */
export async function commitRefused(
  trx: Tx,
  lease: Lease,
  error: JsonObject,
  delayMs: number,
): Promise<void> {
  const to = transition(providerBatchMachine, 'submitting', 'refuse');
  await shareBatchesOf(trx, lease.id);
  await moved(
    lease,
    sql`
    update provider_batch
       set state = ${to}, error = ${JSON.stringify(error)}::json, failures = least(failures + 1, 1000),
           next_due_at = app_now() + ${delayMs} * interval '1 millisecond', ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'submitting'
    returning 1`,
    trx,
  );
  await dueWithUnsendable(trx, lease.id);
}

/** Makes a provider batch due when one of its steps becomes unsendable. */
async function dueWithUnsendable(trx: Tx, providerBatchId: string): Promise<void> {
  await sql`
    update provider_batch p set next_due_at = least(p.next_due_at, s.unsendable_from)
      from (select min(case when b.state = 'running' then r.overdue_from else app_now() end) as unsendable_from
              from step s
             cross join lateral (select batch_id, overdue_from from run where id = s.run_id ${UNMERGED}) r
              join batch b on b.id = r.batch_id
             where s.provider_batch_id = ${providerBatchId}::uuid) s
     where p.id = ${providerBatchId}::uuid
  `.execute(trx);
}

/** Minimum delay that justifies a look at unsendable steps before its end. Unit: ms. */
const LOOKED_AT_FROM_MS = 2_000;

/**
 * Puts off a provider batch while its credential is paused, and releases it. With a long delay it is due earlier, as in
 * {@link commitRefused}, with the same locks.
 */
export async function commitPutOff(trx: Tx, lease: Lease, delayMs: number): Promise<void> {
  const isLong = delayMs >= LOOKED_AT_FROM_MS;
  if (isLong) await shareBatchesOf(trx, lease.id);
  await moved(
    lease,
    sql`
    update provider_batch
       set next_due_at = app_now() + ${delayMs} * interval '1 millisecond', ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'building'
    returning 1`,
    trx,
  );
  if (isLong) await dueWithUnsendable(trx, lease.id);
}

/** Marks a submission as unknown. `delayMs` is the whole quarantine from now. */
export async function commitUnknown(trx: Tx, lease: Lease, reason: string, delayMs: number): Promise<void> {
  const to = transition(providerBatchMachine, 'submitting', 'doubt');
  await moved(
    lease,
    sql`
    update provider_batch
       set state = ${to}, error = ${JSON.stringify({ reason })}::json, searches = 0,
           next_due_at = app_now() + ${delayMs} * interval '1 millisecond', ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'submitting'
    returning 1`,
    trx,
  );
}

/** Watch time of a doubted submission: the provider's window, and two hours for lists that lag. */
const WATCH_HOURS = 26;

/** Records a doubted submission in state `from`, before it moves on. */
async function watchSubmission(
  trx: Tx,
  lease: Lease,
  from: ProviderBatchState,
  outcome: 'adopted' | 'withdrawn',
): Promise<void> {
  await sql`
    insert into doubted_submission (nonce, project_id, provider_batch_id, outcome, request_count, submit_started_at,
                                    provider_sent_at, watched_until)
    select nonce, project_id, id, ${outcome}, request_count, submit_started_at, provider_sent_at,
           submit_started_at + ${WATCH_HOURS} * interval '1 hour'
      from provider_batch
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = ${from}
       for update
    on conflict (nonce) do update set outcome = excluded.outcome
  `.execute(trx);
}

/**
 * Adopts an upstream batch provisionally; its result lines must prove it by the nonce.
 * Throws: `fenced`, also when another submission of its size has adopted it since the look-up.
 */
export async function commitAdopted(
  trx: Tx,
  lease: Lease,
  remote: { readonly provider_id: string; readonly expires_at: Date | null },
): Promise<void> {
  const to = transition(providerBatchMachine, 'unknown', 'adopt');
  await watchSubmission(trx, lease, 'unknown', 'adopted');
  await moved(
    lease,
    sql`
    update provider_batch
       set state = ${to}, provider_id = ${remote.provider_id}, expires_at = ${remote.expires_at}::timestamptz,
           submitted_at = submit_started_at, failures = 0, next_due_at = app_now(),
           ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'unknown'
       and not exists (select 1 from provider_batch o where o.provider_id = ${remote.provider_id})
    returning 1`,
    trx,
  );
}

/**
 * Releases an adopted batch that answers for other steps, or vanished before any of its lines proved it. The search goes on
 * without it; the next candidate counts its own passes and absences.
 */
export async function commitDisproved(trx: Tx, lease: Lease, from: ProviderBatchState): Promise<void> {
  const to = transition(providerBatchMachine, from, 'disprove');
  await moved(
    lease,
    sql`
    update provider_batch
       set state = ${to}, not_ours = not_ours || provider_id, provider_id = null, submitted_at = null, ended_at = null,
           expires_at = null, missing_since = null, streams = 0, failures = 0, searches = 0,
           next_due_at = app_now(), ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = ${from}
    returning 1`,
    trx,
  );
}

/** Schedules another search after one without a result. */
export async function commitSearchedAgain(
  trx: Tx,
  lease: Lease,
  counts: boolean,
  delayMs: number,
): Promise<void> {
  await moved(
    lease,
    sql`
    update provider_batch
       set searches = searches + ${counts ? 1 : 0},
           next_due_at = app_now() + ${delayMs} * interval '1 millisecond', ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'unknown'
    returning 1`,
    trx,
  );
}

/**
 * Withdraws a submission that the provider never accepted: `building` under a new nonce, every step under a new attempt, so
 * that a late batch cannot be taken for the new one.
 * Without open steps it is `rejected` instead.
 * Locks: the runs in id order.
 */
export async function commitWithdrawn(trx: Tx, lease: Lease, newNonce: string): Promise<void> {
  const to = transition(providerBatchMachine, 'unknown', 'withdraw');
  const rejected = transition(providerBatchMachine, 'unknown', 'reject');
  await watchSubmission(trx, lease, 'unknown', 'withdrawn');
  await moved(
    lease,
    sql`
    update provider_batch
       set state = case when s.open then ${to} else ${rejected} end, nonce = ${newNonce}, submission = submission + 1,
           searches = 0, error = null, next_due_at = case when s.open then app_now() end,
           ${GIVE_LEASE_BACK}
      from (select exists (select 1 from step where provider_batch_id = ${lease.id}::uuid and state = 'sealed') as open) s
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'unknown'
    returning 1`,
    trx,
  );
  await lockRunsOf(trx, lease.id);
  await sql`
    update step
       set attempt = least(attempt + 1, 255),
           prompt_attempt = case when (prompt_number, prompt_attempt) = (number, attempt) then least(attempt + 1, 255) else prompt_attempt end
     where provider_batch_id = ${lease.id}::uuid and state = 'sealed'
  `.execute(trx);
  await sql`
    update run r
       set attempt = taken.attempt,
           prompt_attempt = case when (r.prompt_number, r.prompt_attempt) = (r.step_number, r.attempt) then taken.attempt else r.prompt_attempt end
      from (select s.attempt, t.place
              from step s
              cross join lateral (select ${PLACE} as place from run where id = s.run_id and state = 'in_flight' ${UNMERGED}) t
             where s.provider_batch_id = ${lease.id}::uuid and s.state = 'sealed') taken
     where r.${PLACE} = taken.place
  `.execute(trx);
}

/**
 * Splits a batch that was refused, or that crashes its builders, at ordinal `at`: the later half becomes a new batch. After
 * a few rounds the faulty request is alone. Both halves get new nonces.
 */
export async function commitSplit(
  trx: Tx,
  lease: Lease,
  from: 'building' | 'submitting',
  at: number,
  later: { readonly id: string; readonly nonce: string },
  newNonce: string,
): Promise<void> {
  const to = from === 'building' ? from : transition(providerBatchMachine, from, 'refuse');
  await moved(
    lease,
    sql`
    with half as (
      update provider_batch
         set state = ${to}, nonce = ${newNonce}, request_count = ${at}, next_due_at = app_now(), untried = false,
             ${GIVE_LEASE_BACK}
       where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = ${from} and request_count > ${at}
      returning project_id, credential)
    insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at)
    select ${later.id}::uuid, project_id, credential, ${to}, ${later.nonce},
           (select count(*) from step where provider_batch_id = ${lease.id}::uuid and ordinal >= ${at}), app_now()
      from half
    returning 1`,
    trx,
  );
  await sql`
    update step set provider_batch_id = ${later.id}::uuid, ordinal = ordinal - ${at}
     where provider_batch_id = ${lease.id}::uuid and ordinal >= ${at}
  `.execute(trx);
}

/**
 * Takes back sealed, unsent steps and returns the number of remaining steps.
 * These are steps from ordinal `from` on (they did not fit), of batches that no longer run, of runs within `leadMs` of
 * their deadline or past it, and of runs whose step has ended as unsendable. Their step rows are deleted and their runs
 * ready again, in new chunks if they may be sent; a resume queues the others, and the sweep ends runs past their deadline.
 * Without remaining steps the provider batch is `rejected` and released.
 * Locks: the batches (`for share`, so that a resume and this wait for each other), the provider batch, then the runs, each
 * in id order. Runs are looked up individually, as in {@link lockRunsOf}.
 */
export async function commitUnsealed(trx: Tx, lease: Lease, from: number, leadMs = 0): Promise<number> {
  await shareBatchesOf(trx, lease.id);
  const held = await sql<{ project_id: string }>`
    select project_id from provider_batch
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'building' for update
  `.execute(trx);
  if (held.rows[0] === undefined) throw fenced(lease);
  const { project_id } = held.rows[0];
  await lockRunsOf(trx, lease.id);
  const { rows } = await sql<{
    id: string;
    batch_id: string;
    sendable: boolean;
    reserved_nanousd: number | null;
    reserved_output_tokens: number | null;
  }>`
    with gone as (
      delete from step s
       where s.provider_batch_id = ${lease.id}::uuid
         and (s.ordinal >= ${from} or s.state <> 'sealed'
              or (select b.state <> 'running'
                         or coalesce(r.overdue_from <= (select app_now()) + ${leadMs} * interval '1 millisecond', false)
                    from (select batch_id, overdue_from from run where id = s.run_id ${UNMERGED}) r
                    join batch b on b.id = r.batch_id))
      returning s.run_id, s.reserved_nanousd, s.reserved_output_tokens),
    taken ${AS_FIRST} (
      select g.*, r.place, r.batch_id, b.state = 'running' and coalesce(r.overdue_from > (select app_now()), true) as sendable
        from gone g
       cross join lateral (
         select ${PLACE} as place, batch_id, overdue_from from run where id = g.run_id and state = 'in_flight' ${UNMERGED}) r
       cross join lateral (select state from batch where id = r.batch_id ${UNMERGED}) b)
    update run r set state = 'ready', ${WITHOUT_UNSENT_PROMPT} from taken where r.${PLACE} = taken.place
    returning r.id, taken.batch_id, taken.sendable, taken.reserved_nanousd, taken.reserved_output_tokens
  `.execute(trx);
  await releaseReservations(
    trx,
    rows.flatMap(({ batch_id, reserved_nanousd, reserved_output_tokens }) =>
      reserved_nanousd === null || reserved_output_tokens === null
        ? []
        : [{ batch_id, amount: { cost_nanousd: reserved_nanousd, output_tokens: reserved_output_tokens } }],
    ),
  );
  const again = rows.filter((row) => row.sendable).map((row) => row.id);
  if (again.length > 0) {
    await putTakenOut(trx, { project_id, run_ids: again, due_for_ms: 0 });
  }
  const count = await compactOrdinals(trx, lease.id);
  const rejected: ProviderBatchState = transition(providerBatchMachine, 'building', 'reject');
  await sql`
    update provider_batch
       set request_count = ${count},
           state = case when ${count} = 0 then ${rejected} else state end,
           next_due_at = case when ${count} = 0 then null else next_due_at end,
           lease_until = case when ${count} = 0 then '-infinity' else lease_until end,
           lease_owner = case when ${count} = 0 then null else lease_owner end
     where id = ${lease.id}::uuid
  `.execute(trx);
  return count;
}

/** Rejects a provider batch whose last step has ended unsent or unanswerable. */
export async function commitRejected(
  trx: Tx,
  lease: Lease,
  from: ProviderBatchState,
  error: JsonObject,
): Promise<void> {
  const to = transition(providerBatchMachine, from, 'reject');
  await moved(
    lease,
    sql`
    update provider_batch
       set state = ${to}, error = ${JSON.stringify(error)}::json, next_due_at = null, ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = ${from}
    returning 1`,
    trx,
  );
}

/**
 * Ends a provider batch that the provider has lost, after its steps were settled otherwise. If it reappears, the search for
 * orphans finds it.
 */
export async function commitLost(trx: Tx, lease: Lease, from: ProviderBatchState): Promise<void> {
  const to = transition(providerBatchMachine, from, 'reject');
  await watchSubmission(trx, lease, from, 'withdrawn');
  await moved(
    lease,
    sql`
    update provider_batch
       set state = ${to}, error = json_build_object('reason', 'the provider lost it', 'provider_id', provider_id),
           provider_id = null, next_due_at = null, ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = ${from}
    returning 1`,
    trx,
  );
}

async function moved(lease: Lease, statement: ReturnType<typeof sql>, trx: Tx): Promise<void> {
  const { rows } = await statement.execute(trx);
  if (rows.length === 0) throw fenced(lease);
}
