import type { StepDecision } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import type { RunToDecide } from '../../reads/run/runs-to-decide.ts';
import { isTriedAgain } from '../run/failures.ts';
import type { PassedOn } from '../run/pass-conversations.ts';

/**
 * Draws the slot of a commit. Counts are spread over a few slots, so that commits of one batch seldom wait for each other.
 * A test may choose the slot.
 */
export function tallySlot(): number {
  return Math.floor(Math.random() * 8);
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
}

const NAMES = sql.join(COUNTS.map((name) => sql.ref(name)));
const TYPED_NAMES = sql.join(COUNTS.map((name) => sql`${sql.ref(name)} bigint`));
const ADDED = sql.join(
  COUNTS.map((name) => sql`${sql.ref(name)} = ${sql.ref(`t.${name}`)} + ${sql.ref(`excluded.${name}`)}`),
);

/**
 * Adds changes to the counts of their batches.
 * Locks: the counts in batch id order, last in a commit, because its started runs may be of any batch.
 */
export async function addToTallies(trx: Tx, changes: readonly TallyChange[], slot: number): Promise<void> {
  if (changes.length === 0) return;
  await sql`
    insert into batch_tally as t (batch_id, slot, project_id, ${NAMES})
    select batch_id, ${slot}::int, project_id, ${NAMES}
      from json_to_recordset(${JSON.stringify(sumsOf(changes))}::json)
        as d(batch_id uuid, project_id uuid, ${TYPED_NAMES})
     order by batch_id
    on conflict (batch_id, slot) do update set ${ADDED}
  `.execute(trx);
}

/** Sums the changes per batch, with every count. */
function sumsOf(changes: readonly TallyChange[]): readonly TallyChange[] {
  const sums = new Map<string, Record<(typeof COUNTS)[number], number> & TallyChange>();
  for (const change of changes) {
    const { batch_id, project_id } = change;
    let sum = sums.get(batch_id);
    if (sum === undefined) sums.set(batch_id, (sum = { batch_id, project_id, ...NOTHING }));
    for (const name of COUNTS) sum[name] += change[name] ?? 0;
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
  return move.state === 'ready' || move.state === 'acting' ? change : { ...change, [move.state]: 1 };
}

/** Counts a run as no longer queued. */
function tallyOfStart({ batch_id, project_id }: Omit<TallyChange, 'queued'>): TallyChange {
  return { batch_id, project_id, queued: -1 };
}

/** Counts runs that waited for a conversation until now. */
export function talliesOfPassing({ started, cancelled }: PassedOn): readonly TallyChange[] {
  return [...started.map(tallyOfStart), ...cancelled.map((run) => ({ ...tallyOfStart(run), cancelled: 1 }))];
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
