import { sql } from 'kysely';
import type { Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, WITHOUT_FAILURE } from '../../fragments.ts';
import { keepInputOf } from '../run/keep-input.ts';
import { NONE_PASSED_ON, passConversationsOn } from '../run/pass-conversations.ts';
import { putChunk } from '../run/run-chunks.ts';
import { addToTallies, talliesOfPassing, tallySlot } from './tallies.ts';

/** Runs ended by a cancel step, and the ordinal of the next page. */
export interface CancelReport {
  readonly cancelled: number;
  readonly started: boolean;
  /** Ordinal at which the next page starts; null after the last page. */
  readonly next_ordinal: number | null;
}

/**
 * Cancels up to `limit` `queued` or `ready` runs of a batch, starting at `from_ordinal`.
 * Runs at the provider or in a tool end when the answer arrives.
 * Locks: the runs by ordinal (which is their id order), then conversations, then batch counts.
 * Index: `run_batch_id_ordinal_key`.
 */
export async function commitRunsCancelled(
  trx: Tx,
  batch: Lease,
  { from_ordinal, limit }: { readonly from_ordinal: number; readonly limit: number },
  slot = tallySlot(),
): Promise<CancelReport> {
  const { rows } = await sql<{
    id: string;
    project_id: string;
    ordinal: number;
    conversation_id: string;
    held: boolean;
    failing: boolean;
  }>`
    with waiting ${AS_FIRST} (
      select id, started_at is not null as held, failing_since is not null as failing from run
       where batch_id = ${batch.id}::uuid and ordinal >= ${from_ordinal} and state in ('queued', 'ready')
       order by ordinal limit ${limit}
         for no key update),
    ${keepInputOf('waiting')},
    ended as (
      update run r set state = 'cancelled', stop_reason = 'cancelled', ended_at = app_now(), overdue_from = null, ${WITHOUT_FAILURE}
        from waiting w where r.id = w.id
      returning r.id, r.project_id, r.ordinal, r.conversation_id, w.held, w.failing)
    select id, project_id, ordinal, conversation_id, held, failing from ended
  `.execute(trx);
  const holders = rows.filter((row) => row.held);
  const passed =
    holders.length > 0
      ? await passConversationsOn(
          trx,
          holders.map((run) => run.conversation_id),
          holders.map((run) => run.id),
        )
      : NONE_PASSED_ON;
  const ended = rows.map(({ id, project_id, held, failing }) => ({
    batch_id: batch.id,
    project_id,
    ended_run_id: id,
    cancelled: 1,
    queued: held ? 0 : -1,
    retrying: failing ? -1 : 0,
  }));
  await addToTallies(trx, [...ended, ...talliesOfPassing(passed)], slot);
  return {
    cancelled: rows.length,
    started: passed.started.length > 0,
    next_ordinal: nextOrdinal(rows, limit),
  };
}

/**
 * Moves up to `limit` runs in `requires_action` to `acting`. Workers then answer their open calls and end the runs.
 * Pages like {@link commitRunsCancelled}.
 * Locks: the runs by ordinal (which is their id order).
 */
export async function commitParkedRunsReleased(
  trx: Tx,
  batch: Lease,
  { from_ordinal, limit }: { readonly from_ordinal: number; readonly limit: number },
  slot = tallySlot(),
): Promise<{ readonly released: number; readonly next_ordinal: number | null }> {
  const { rows } = await sql<{ id: string; ordinal: number; project_id: string }>`
    with parked ${AS_FIRST} (
      select id from run
       where batch_id = ${batch.id}::uuid and ordinal >= ${from_ordinal} and state = 'requires_action'
       order by ordinal limit ${limit}
         for no key update),
    released as (
      update run r set state = 'acting' from parked p where r.id = p.id
      returning r.id, r.ordinal, r.project_id)
    select id, ordinal, project_id from released
  `.execute(trx);
  const [first] = rows;
  if (first === undefined) return { released: 0, next_ordinal: null };
  const runIds = rows.map((run) => run.id);
  await putChunk(trx, { project: first.project_id, kind: 'tools', runIds, delayMs: 0 });
  const { project_id } = first;
  await addToTallies(trx, [{ batch_id: batch.id, project_id, requires_action: -rows.length }], slot);
  return { released: rows.length, next_ordinal: nextOrdinal(rows, limit) };
}

/** Returns the ordinal at which the next page starts; null after the last page. */
function nextOrdinal(rows: readonly { readonly ordinal: number }[], limit: number): number | null {
  if (rows.length < limit) return null;
  return rows.reduce((last, { ordinal }) => Math.max(last, ordinal), 0) + 1;
}

/** Reads the provider batches with open steps of a batch. `exclusive`: every open step is of a batch in `cancelling`. */
export async function readProviderBatchesOf(
  trx: Tx,
  batchId: string,
): Promise<readonly { readonly id: string; readonly state: string; readonly exclusive: boolean }[]> {
  const { rows } = await sql<{ id: string; state: string; exclusive: boolean }>`
    with mine as (
      select distinct s.provider_batch_id as id
        from run r join step s on s.run_id = r.id and s.number = r.step_number and s.attempt = r.attempt
       where r.batch_id = ${batchId}::uuid and r.ended_at is null and s.state = 'sealed')
    select p.id, p.state,
           not exists (select 1 from step s join run r on r.id = s.run_id join batch b on b.id = r.batch_id
                        where s.provider_batch_id = p.id and s.state = 'sealed' and b.state <> 'cancelling') as exclusive
      from mine join provider_batch p on p.id = mine.id
     order by p.id
  `.execute(trx);
  return rows;
}
