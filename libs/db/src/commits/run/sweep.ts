import { sql } from 'kysely';
import type { Database, Tx } from '../../connect.ts';
import { AS_FIRST, UNMERGED } from '../../fragments.ts';
import { IS_IDLE, isOldDeletedItem, isOldKey } from '../../reads/due-conditions.ts';
import { addToTallies, talliesOfPassing, tallySlot } from '../batch/tallies.ts';
import { passConversationsOn } from './pass-conversations.ts';

/**
 * Makes batches due without open runs, or whose pilot has none, as after a crash between a commit and its bell. Locks: skip locked, because the
 * holder of a lock is making the batch due, or ending it.
 */
export async function markIdleBatches(db: Database): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    with idle ${AS_FIRST} (
      select b.id from batch b
       where ${IS_IDLE}
       order by b.id
         for no key update skip locked)
    update batch b set next_due_at = app_now() from idle where b.id = idle.id
    returning b.id
  `.execute(db);
  return rows.map((row) => row.id);
}

/** Maximum waiting runs examined per sweep. */
const WAITING_RUNS_LOOKED_AT = 5_000;

/** The result of a look for runs that wait for a free conversation. */
export interface WaitingReport {
  readonly started: number;
  /** Batches of cancelled runs. */
  readonly ended_batch_ids: readonly string[];
}

/**
 * Starts or cancels runs that wait for up to `limit` free conversations.
 * They are found by queued input, because `run_queued` also holds cancelled runs. With very many waiting runs, as when a
 * night's batch waits for the last, each sweep examines a part of some thousands, different every time.
 */
export async function commitWaitingRunsStarted(trx: Tx, limit: number): Promise<WaitingReport> {
  const { rows } = await sql<{ id: string }>`
    -- Looked up per input by keys: a join scans conversations and runs, although hardly any has a waiting run.
    select distinct c.id
      from queued_input q tablesample system (
        least(100, 100.0 * ${WAITING_RUNS_LOOKED_AT} / (
          select greatest(reltuples, 1) from pg_class where oid = 'queued_input'::regclass)))
     cross join lateral (
       select conversation_id, batch_id from run
        where id = q.run_id and started_at is null and ended_at is null ${UNMERGED}) r
     cross join lateral (
       select id from conversation where id = r.conversation_id and run_id is null ${UNMERGED}) c
     cross join lateral (select from batch where id = r.batch_id and state <> 'cancelling' ${UNMERGED}) b
     limit ${limit}
  `.execute(trx);
  const ids = rows.map((row) => row.id);
  if (ids.length === 0) return { started: 0, ended_batch_ids: [] };
  const passed = await passConversationsOn(trx, ids, []);
  await addToTallies(trx, talliesOfPassing(passed), tallySlot());
  const ended_batch_ids = [...new Set(passed.cancelled.map((run) => run.batch_id))];
  return { started: passed.started.length, ended_batch_ids };
}

/** Keys that one call forgets; the next look finds the rest. */
const KEYS_MAX = 10_000;

/** Forgets idempotency keys older than `days`. Index: `idempotency_key_by_age`, primary key. */
export async function deleteOldIdempotencyKeys(db: Database, days: number): Promise<void> {
  await sql`
    with old ${AS_FIRST} (
      select project_id, key from idempotency_key where ${isOldKey(days)} order by created_at limit ${KEYS_MAX})
    delete from idempotency_key k using old
     where k.project_id = old.project_id and k.key = old.key and ${isOldKey(days)}
  `.execute(db);
}

/** Forgets the places of items deleted more than `days` ago: they are no cursors any more. */
export async function forgetDeletedItems(db: Database, days: number): Promise<void> {
  await sql`delete from deleted_item where ${isOldDeletedItem(days)}`.execute(db);
}
