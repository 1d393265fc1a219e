import { batchMachine, transition, type BatchState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { fenced, GIVE_LEASE_BACK, type Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { OPEN_RUNS } from '../../reads/due-conditions.ts';
import { storableJson } from '../json-rows.ts';
import { queueReadyRuns } from '../run/queue-again.ts';
import { unnestRows } from '../unnest-rows.ts';
import { countQueued, insertRunRows } from './accepted-rows.ts';
import type { PlacedRuns } from './commit-batch.ts';
import { choosePilot } from './pilot.ts';
import { addToTallies, tallySlot } from './tallies.ts';

/** A batch whose runs are being made. */
export interface ReceivingBatch {
  readonly id: string;
  readonly project_id: string;
  readonly state: BatchState;
  readonly source: unknown;
  readonly apply: 'auto' | 'review';
  /** Whether it has a cap in dollars. */
  readonly has_cost_cap: boolean;
  /** ISO time with microseconds; the time of all its runs. */
  readonly created_at: string;
  readonly accepted_at: Date;
  readonly tick_due_at: Date | null;
  /** Runs stored so far, and agents or lines that are not taken yet. */
  readonly total: number;
  /** Runs stored so far, and the id of the last one. */
  readonly accepted: number;
  readonly last_run_id: string | null;
  readonly agents_taken: number;
  readonly skipped: Readonly<Record<string, number>>;
}

/**
 * Locks a batch under its lease and reads how far its runs are made.
 * Throws: `fenced`. Locks: the batch row, which a cancel request needs too. Index: primary keys, (batch, ordinal).
 */
export async function lockReceivingBatch(trx: Tx, lease: Lease): Promise<ReceivingBatch> {
  const { rows } = await sql<ReceivingBatch>`
    select b.id, b.project_id, b.state, b.source, b.apply, b.created_at::text as created_at, b.created_at as accepted_at, b.tick_due_at, b.total, b.accepted,
           (select g.max_cost_nanousd is not null from batch_budget g where g.batch_id = b.id) is true as has_cost_cap,
           (select r.id from run r where r.batch_id = b.id order by r.ordinal desc limit 1) as last_run_id,
           b.agents_taken, b.skipped
      from batch b where b.id = ${lease.id}::uuid and b.lease_epoch = ${lease.epoch}
       for no key update of b
  `.execute(trx);
  const [batch] = rows;
  if (batch === undefined) throw fenced(lease);
  return batch;
}

/** Reads the next agents of a batch, in order. Index: primary key. */
export async function readNextBatchAgents(
  trx: Tx,
  { id, agents_taken }: Pick<ReceivingBatch, 'id' | 'agents_taken'>,
  limit: number,
): Promise<readonly string[]> {
  const rows = await trx
    .selectFrom('batch_agent')
    .select('agent_id')
    .where('batch_id', '=', id)
    // Ordinals have no gaps. A bound instead of a limit: a planner without statistics would sort all agents for it.
    .where('ordinal', '>=', agents_taken)
    .where('ordinal', '<', agents_taken + limit)
    .orderBy('ordinal')
    .execute();
  return rows.map((row) => row.agent_id);
}

/** The outcome of a portion of agents. */
export interface PortionOutcome {
  /** Agents of the portion. */
  readonly agents: number;
  readonly deadline: string | null;
  /** Without runs where all agents are skipped. */
  readonly placed: PlacedRuns;
  readonly skipped: readonly { readonly ordinal: number; readonly reason: string }[];
  /** The table of the ordinals. Default: that of agents. */
  readonly table?: 'batch_agent' | 'batch_retry_run';
}

/**
 * Stores the runs of a portion of agents, and why the others are skipped. The caller holds the batch
 * ({@link lockReceivingBatch}) and the places of the runs. The runs wait: none is sealed before the batch is `running`.
 */
export async function commitPortion(trx: Tx, batch: ReceivingBatch, portion: PortionOutcome): Promise<void> {
  const { agents, deadline, placed, skipped, table = 'batch_agent' } = portion;
  const { plan, now } = placed;
  const { id, created_at } = batch;
  await insertRunRows(trx, batch.project_id, { id, deadline, created_at }, plan, now);
  if (skipped.length > 0) {
    await sql`
      update ${sql.table(table)} t set skip_reason = d.reason
        from ${unnestRows(skipped, {
          ordinal: ['int', ({ ordinal }) => ordinal],
          reason: ['word', ({ reason }) => reason],
        })}
       where t.batch_id = ${batch.id}::uuid and t.ordinal = d.ordinal
    `.execute(trx);
  }
  const counts = { ...batch.skipped };
  for (const { reason } of skipped) counts[reason] = (counts[reason] ?? 0) + 1;
  await trx
    .updateTable('batch')
    .set((eb) => ({
      accepted: eb('accepted', '+', plan.length),
      total: eb('total', '+', plan.length - agents),
      agents_taken: eb('agents_taken', '+', agents),
      skipped: storableJson(counts),
      updated_at: NOW,
    }))
    .where('id', '=', batch.id)
    .execute();
  const tally = { batch_id: batch.id, project_id: batch.project_id, queued: countQueued(plan) };
  if (tally.queued > 0) await addToTallies(trx, [tally], tallySlot());
}

/**
 * Ends the accept of a batch: it runs from now on, its ready runs are queued, or those of its pilot, and the lease is released. Returns the
 * number of runs that have not ended. The caller holds the batch.
 */
export async function commitAccepted(trx: Tx, batch: ReceivingBatch): Promise<number> {
  const { rows } = await sql<{ open_runs: number }>`
    update batch b
       set state = ${transition(batchMachine, batch.state, 'accept')}, updated_at = app_now(),
           next_due_at = case when ${OPEN_RUNS} <= 0 then app_now() end, ${GIVE_LEASE_BACK}
     where b.id = ${batch.id}::uuid
    returning ${OPEN_RUNS} as open_runs
  `.execute(trx);
  await choosePilot(trx, batch.id);
  await queueReadyRuns(trx, batch.id, null);
  return rows[0]?.open_runs ?? 0;
}
