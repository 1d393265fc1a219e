import { sql } from 'kysely';
import {
  providerBatchMachine,
  transition,
  type JsonObject,
  type ProviderBatchState,
} from '@nightshift/agent-core';
import { fenced, GIVE_LEASE_BACK, type Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, PLACE, UNMERGED } from '../../fragments.ts';
import { lockRunsOf } from '../../locks/run/lock-runs.ts';
import { shareBatchesOf } from '../../locks/provider-batch/lock-sendable.ts';
import { releaseReservations } from '../batch/reservations.ts';
import { putTakenOut } from '../run/run-chunks.ts';
import { closeRanks } from '../run/take-out-steps.ts';
import type { TokenSample } from './token-calibrations.ts';

/*
 * The moves of a provider batch up to the provider's answer. Each takes the epoch of the lease and the state that it
 * leaves; a row that is not as expected means that another worker went on, and throws `fenced`.
 */

/**
 * Writes ahead that the body is about to be sent: from here on, silence means "unknown", never "not sent".
 * Returns the database time that the provider's answer is measured against.
 */
export async function commitWriteAhead(
  trx: Tx,
  lease: Lease,
  body: {
    readonly request_count: number;
    readonly bytes: number;
    readonly sha256: string;
    /** Requests whose answers will say what a token measures; default: none. */
    readonly token_samples?: readonly TokenSample[];
    /** The provider's time of the send; default: not measured. */
    readonly provider_sent_at?: Date | null;
  },
): Promise<Date> {
  const to = transition(providerBatchMachine, 'building', 'write_ahead');
  const { rows } = await sql<{ submit_started_at: Date }>`
    update provider_batch
       set state = ${to}, body_bytes = ${body.bytes}, body_sha256 = ${body.sha256},
           token_samples = ${JSON.stringify(body.token_samples ?? [])}::json, submit_started_at = app_now(),
           provider_sent_at = ${body.provider_sent_at ?? null}::timestamptz
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'building'
       and request_count = ${body.request_count}
    returning submit_started_at
  `.execute(trx);
  const row = rows[0];
  if (row === undefined) throw fenced(lease);
  return row.submit_started_at;
}

/**
 * The provider has it: stores its id and gives the lease back, due for the first poll. Throws `fenced` also when another
 * submission has taken that batch for its own: then {@link commitProven} puts both right.
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
 * The provider refused it clearly: nothing was accepted, it may be sent again after the delay under the same nonce. It is due
 * earlier where a step of it must not be sent any more: a batch of its steps does not run, or a run's deadline comes before.
 * Locks the batches for share, then the provider batch, so that a pause or cancel finds it put off, or this finds that one.
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

/** Makes a provider batch due as soon as a step of it must not be sent any more. */
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

/** A delay that is worth a look at what must not be sent before it is over. */
const LOOKED_AT_FROM_MS = 2_000;

/**
 * Nobody may send under its credential for a while: puts the batch off and gives it back. Where the delay is long it is due
 * earlier as in {@link commitRefused}, by the same locks.
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

/** Marks a submission whose outcome is unknown. `delayMs` is the whole quarantine, counted from now. */
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

/** How long a doubted submission is watched: the provider's window, and two hours for lists that lag. */
const WATCH_HOURS = 26;

/** Remembers a submission that was in doubt, as it stands in state `from` before it moves on. */
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
 * A batch of the provider is taken to be ours; its result lines must prove it by the nonce. Throws `fenced` also when
 * another submission of its size has taken it since it was looked up.
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
 * The batch that was adopted answers for somebody else's steps, or is gone before a line of it has answered for ours: it is
 * not ours. The search goes on without it, and whichever is found counts its own passes and absences.
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

/** A search did not settle it: look again later. */
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
 * It was never accepted: back to `building` under a new nonce, and every step under a new attempt, so that a batch
 * that turns up after all cannot be taken for this one. When no step of it waits for an answer any more, it is
 * `rejected` instead: there is nothing to send. Locks the runs in id order.
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
    update step set attempt = least(attempt + 1, 255) where provider_batch_id = ${lease.id}::uuid and state = 'sealed'
  `.execute(trx);
  await sql`
    update run r set attempt = taken.attempt
      from (select s.attempt, t.place
              from step s
              cross join lateral (select ${PLACE} as place from run where id = s.run_id and state = 'in_flight' ${UNMERGED}) t
             where s.provider_batch_id = ${lease.id}::uuid and s.state = 'sealed') taken
     where r.${PLACE} = taken.place
  `.execute(trx);
}

/**
 * Splits a batch that was refused, or that ends whoever builds it, in two at ordinal `at`: the later half becomes a batch of
 * its own, so that the request that is the cause is alone after a few rounds. Both go under nonces that were never sent.
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
 * Takes steps back that were sealed and not sent: those from ordinal `from` on (they did not fit), those whose batch no
 * longer runs, those whose run is past its deadline or `leadMs` before it, and those that have ended because they cannot be
 * sent. Their step rows vanish and their runs are ready again, in chunks of their own where they may be sent; whoever resumes
 * the batch makes those of the others, and the sweep ends those past their deadline. Returns how many stay; when none does,
 * the provider batch is `rejected` and the lease given back.
 *
 * Locks the batches (`for share`, so that a resume waits for this or this sees the resume), the provider batch, then the
 * runs, each in id order: locked, a run stays in its place. It is looked up by itself, as in {@link lockRunsOf}.
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
    update run r set state = 'ready' from taken where r.${PLACE} = taken.place
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
  const count = await closeRanks(trx, lease.id);
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

/** The last step of a batch has ended without being sent or being answerable: nothing more will come of it. */
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
 * The provider has lost a batch that it had taken, and its steps have gone another way: should it turn up again it is
 * nobody's, and the hunt for orphans finds it.
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
