import {
  batchMachine,
  canTake,
  decideAfterPilot,
  decideFinish,
  decideStop,
  type AfterPilot,
  type BatchState,
} from '@nightshift/agent-core';
import {
  acceptByRule,
  claimDueBatches,
  commitBatchFinish,
  commitPilotEnd,
  commitUsagePortion,
  inTransaction,
  lockForFinish,
  readPilotFacts,
  requestBatchCancel,
  RUNS_BOOKED_MAX,
  type AcceptedPortion,
  type FinishFacts,
  type Lease,
  type Tx,
} from '@nightshift/db';
import { withLease } from '../../leases/with-lease.ts';
import type { HeldLease } from '../../leases/keeper.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'finish-batch';
/** Interval for a due batch that still has open runs. Unit: milliseconds. */
const LOOK_AGAIN_MS = 60_000;
/** Agents whose held changes are accepted in one transaction. */
const AGENTS_PER_PORTION = 500;

/**
 * Ends one batch whose last run has ended, or its pilot. Concurrent workers take turns by the lease and the row lock.
 * After its pilot a batch pauses, or its other runs are queued, in one transaction.
 * A batch whose failures have reached its `stop_when` is cancelled instead.
 * A batch with a hold rule first accepts its held changes, portion by portion; the last portion ends it. After a crash the
 * portions start again: settled changes are skipped. The use of a big batch is booked before, portion by portion.
 */
export async function finishBatch(
  deps: FlowDeps,
  agentsPerPortion: number = AGENTS_PER_PORTION,
  runsPerPortion: number = RUNS_BOOKED_MAX,
): Promise<FlowReport> {
  const { db, claimant, bell } = deps;
  const [batch] = await claimDueBatches(db, ['running', 'paused'], 1, claimant);
  if (batch === undefined) return { flow: FLOW, worked: false };
  const claim = { table: 'batch', id: batch.id, epoch: batch.lease_epoch } as const;
  return withLease(deps.leases, claim, async (lease) => {
    let accepted = 0;
    let held_agents = 0;
    let after: string | null = null;
    let state: BatchState | null;
    let pilot: PilotMove | null = null;
    for (;;) {
      const portion = await finishPortion(deps, lease, after, {
        agents: agentsPerPortion,
        runs: runsPerPortion,
      });
      ({ state, after } = portion);
      pilot ??= portion.pilot;
      accepted += portion.accepted;
      held_agents += portion.held_agents;
      if (portion.is_last) break;
    }
    if (pilot !== null && pilot.queued > 0) await bell.ring([{ kind: 'compose', id: '*' }]);
    if (state === 'cancelling') await bell.ring([{ kind: 'cancel', id: batch.id }]);
    else if (state !== null) await bell.ring([{ kind: 'webhook', id: batch.id }]);
    return {
      flow: FLOW,
      worked: true,
      batch_id: batch.id,
      state: state ?? 'still open',
      ...(pilot === null ? {} : { pilot: pilot.state, queued: pilot.queued }),
      ...(accepted + held_agents > 0 ? { accepted, held_agents } : {}),
      taken_over_from: batch.taken_over_from,
    };
  });
}

type Portion = Pick<AcceptedPortion, 'accepted' | 'held_agents' | 'after'> & {
  readonly state: BatchState | null;
  readonly is_last: boolean;
  /** Null: no pilot has ended. */
  readonly pilot: PilotMove | null;
};

interface PilotMove {
  readonly state: AfterPilot['state'];
  /** Runs that go on. */
  readonly queued: number;
}

/**
 * Books a portion of the use; after the last, accepts a portion of the held changes where the batch has a hold rule, and ends the
 * batch after the last.
 */
function finishPortion(
  { db, hooks }: FlowDeps,
  lease: HeldLease,
  from: string | null,
  limits: { readonly agents: number; readonly runs: number },
): Promise<Portion> {
  return inTransaction(db, async (trx) => {
    const facts = await lockForFinish(trx, lease);
    if (await stopAtFailures(trx, lease, facts)) return STOPPED;
    const pilot = facts.pilot_is_over ? await endPilot(trx, lease, facts) : null;
    const state = decideFinish(facts);
    if (state !== null && (await commitUsagePortion(trx, lease, facts.total, limits.runs))) {
      await hooks?.('finish.before_commit');
      return { state, pilot, ...NOTHING_ACCEPTED, after: from, is_last: false };
    }
    const accepts = facts.hold_if !== null && (state === 'completed' || state === 'failed');
    const { accepted, held_agents, after } = accepts
      ? await acceptByRule(trx, lease.id, facts.hold_if, { after: from, limit: limits.agents })
      : NOTHING_ACCEPTED;
    await hooks?.('finish.before_commit');
    // After its pilot, only the end of a run makes the batch due.
    if (after === null) await commitBatchFinish(trx, lease, state, pilot === null ? LOOK_AGAIN_MS : null);
    return { state, pilot, accepted, held_agents, after, is_last: after === null };
  });
}

/** Cancels a batch with too many failures and open runs; the cancel flow goes on with it. True if it did. */
async function stopAtFailures(
  trx: Tx,
  lease: HeldLease,
  { project_id, stop_when, state, open_runs, completed_runs, failed_runs }: FinishFacts,
): Promise<boolean> {
  if (stop_when === null || open_runs === 0 || !canTake(batchMachine, state, 'cancel')) return false;
  const ended = completed_runs + failed_runs;
  const reason = decideStop(stop_when, { failed: failed_runs, ended });
  if (reason === null) return false;
  await requestBatchCancel(trx, project_id, lease.id, reason);
  await commitBatchFinish(trx, lease, null, 0);
  return true;
}

/** Decides about a batch whose pilot has ended. */
async function endPilot(
  trx: Tx,
  { id }: Lease,
  { state, total, open_runs }: FinishFacts,
): Promise<PilotMove> {
  const decided = decideAfterPilot({ ...(await readPilotFacts(trx, id)), total, open_runs });
  return { state: decided.state, queued: await commitPilotEnd(trx, { id, state }, decided) };
}

const STOPPED = {
  state: 'cancelling',
  pilot: null,
  accepted: 0,
  held_agents: 0,
  after: null,
  is_last: true,
} as const;
const NOTHING_ACCEPTED = { accepted: 0, held_agents: 0, after: null };
