import type { StepDecision } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { TALLY_SLOTS } from '../../reads/batch/ended-runs.ts';
import type { RunToDecide } from '../../reads/run/runs-to-decide.ts';
import { isTriedAgain } from '../run/failures.ts';
import type { PassedOn } from '../run/pass-conversations.ts';
import { noteCallerAwaited } from './caller-awaited.ts';
import { noteRunFailures } from '../run/run-failures.ts';

/**
 * Draws the slot of a commit. Counts are spread over a few slots, so that commits of one batch seldom wait for each other.
 * A test may choose the slot.
 */
export function tallySlot(): number {
  return Math.floor(Math.random() * TALLY_SLOTS);
}

const COUNTS = [
  'queued',
  'completed',
  'failed',
  'cancelled',
  'expired',
  'requires_action',
  'retrying',
  'steps',
  'tool_calls',
  'ended_tool_calls',
  'failed_tool_calls',
  'unknown_tool_calls',
  'input_tokens',
  'output_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
  'cache_read_tokens',
  'cost_nanousd',
  'unpriced_steps',
] as const;

/** A change of a batch's counts; absent counts do not change. */
export interface TallyChange extends Partial<Readonly<Record<(typeof COUNTS)[number], number>>> {
  readonly batch_id: string;
  readonly project_id: string;
  /** The run that the change counts as ended. Default: none. */
  readonly ended_run_id?: string;
}

const NAMES = sql.join(COUNTS.map((name) => sql.ref(name)));
const TYPED_NAMES = sql.join(COUNTS.map((name) => sql`${sql.ref(name)} bigint`));
const ADDED = sql.join(
  COUNTS.map((name) => sql`${sql.ref(name)} = ${sql.ref(`t.${name}`)} + ${sql.ref(`excluded.${name}`)}`),
);

/** States of runs that ended without completing. */
const FAILED_STATES = ['failed', 'expired', 'cancelled'] as const;

/**
 * Adds changes to the counts of their batches and to the present minute of their charts, and stores the ended runs of each
 * batch under the next version of its slot. Runs that failed, expired or were cancelled are noted as failures; the caller has
 * written their ends.
 * Locks: the counts in batch id order, last in a commit, because its started runs may be of any batch.
 */
export async function addToTallies(trx: Tx, changes: readonly TallyChange[], slot: number): Promise<void> {
  if (changes.length === 0) return;
  const sums = sumsOf(changes);
  await sql`
    with d ${AS_FIRST} (
      select *, failed + expired + cancelled as unsuccessful
        from json_to_recordset(${JSON.stringify(sums)}::json)
          as d(batch_id uuid, project_id uuid, ended_run_ids uuid[], ${TYPED_NAMES})),
    counted as (
      insert into batch_tally as t (batch_id, slot, project_id, version, last_ended_at, ${NAMES})
      select batch_id, ${slot}::int, project_id, 1, case when ended_run_ids is not null then app_now() end, ${NAMES}
        from d order by batch_id
      on conflict (batch_id, slot) do update
         set version = t.version + 1, last_ended_at = coalesce(excluded.last_ended_at, t.last_ended_at), ${ADDED}
      returning batch_id, version),
    charted as (
      insert into batch_minute as m (batch_id, minute, slot, project_id, ended, failed, input_tokens, output_tokens, cost_nanousd)
      select batch_id, date_trunc('minute', app_now()), ${slot}::int, project_id, coalesce(cardinality(ended_run_ids), 0), unsuccessful,
             input_tokens, output_tokens, cost_nanousd
        from d where ended_run_ids is not null or input_tokens + output_tokens + cost_nanousd > 0
       order by batch_id
      on conflict (batch_id, minute, slot) do update
         set ended = m.ended + excluded.ended, failed = m.failed + excluded.failed,
             input_tokens = m.input_tokens + excluded.input_tokens, output_tokens = m.output_tokens + excluded.output_tokens,
             cost_nanousd = m.cost_nanousd + excluded.cost_nanousd)
    insert into ended_runs (batch_id, slot, version, project_id, run_ids)
    select c.batch_id, ${slot}::int, c.version, d.project_id, d.ended_run_ids
      from counted c join d using (batch_id) where d.ended_run_ids is not null
  `.execute(trx);
  await noteCallerAwaited(
    trx,
    sums.flatMap(({ batch_id, requires_action }) =>
      requires_action === 0 ? [] : [{ batch_id, requires_action }],
    ),
  );
  await noteRunFailures(
    trx,
    changes.flatMap((change) => {
      const hasFailed = FAILED_STATES.some((state) => (change[state] ?? 0) > 0);
      return hasFailed && change.ended_run_id !== undefined ? [change.ended_run_id] : [];
    }),
  );
}

interface TallySum extends Record<(typeof COUNTS)[number], number> {
  batch_id: string;
  project_id: string;
  ended_run_ids: string[] | null;
}

/** Sums the changes per batch, with every count. */
function sumsOf(changes: readonly TallyChange[]): readonly TallySum[] {
  const sums = new Map<string, TallySum>();
  for (const change of changes) {
    const { batch_id, project_id, ended_run_id } = change;
    let sum = sums.get(batch_id);
    if (sum === undefined)
      sums.set(batch_id, (sum = { batch_id, project_id, ended_run_ids: null, ...NOTHING }));
    for (const name of COUNTS) sum[name] += change[name] ?? 0;
    if (ended_run_id !== undefined) (sum.ended_run_ids ??= []).push(ended_run_id);
  }
  return [...sums.values()];
}

const NOTHING = Object.fromEntries(COUNTS.map((name) => [name, 0])) as Record<
  (typeof COUNTS)[number],
  number
>;

/** Counts a run in the state that it moves to, and whether it is tried again. */
export function tallyOfMove(run: RunToDecide, move: StepDecision['run']): TallyChange {
  const retrying = Number(isTriedAgain(run, move)) - Number(run.failing_for_ms !== null);
  const change = { batch_id: run.batch_id, project_id: run.project_id, retrying };
  if (move.state === 'ready' || move.state === 'acting') return change;
  const ended = 'stop_reason' in move ? { ended_run_id: run.id } : {};
  return { ...change, [move.state]: 1, ...ended };
}

/** Counts a run as no longer queued. */
function tallyOfStart({ batch_id, project_id }: Omit<TallyChange, 'queued'>): TallyChange {
  return { batch_id, project_id, queued: -1 };
}

/** Counts runs that waited for a conversation until now. */
export function talliesOfPassing({ started, cancelled }: PassedOn): readonly TallyChange[] {
  return [
    ...started.map(tallyOfStart),
    ...cancelled.map((run) => ({ ...tallyOfStart(run), cancelled: 1, ended_run_id: run.run_id })),
  ];
}

/** Counts the bill of a step attempt. */
export function tallyOfBill({ usage, cost_nanousd }: StepDecision['step']): Partial<TallyChange> {
  return {
    input_tokens: usage.input_tokens,
    output_tokens: usage.output_tokens,
    cache_write_5m_tokens: usage.cache_write_5m_tokens,
    cache_write_1h_tokens: usage.cache_write_1h_tokens,
    cache_read_tokens: usage.cache_read_tokens,
    cost_nanousd: cost_nanousd ?? 0,
    unpriced_steps: cost_nanousd === null ? 1 : 0,
  };
}
