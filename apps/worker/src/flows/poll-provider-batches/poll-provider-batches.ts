import { decideAfterPoll, isJsonObject, lookSpacingMs, type PollDecision } from '@nightshift/agent-core';
import {
  commitDisproved,
  commitPolled,
  commitLost,
  inTransaction,
  readOpenDoubts,
  type ClaimedPolls,
  type ClaimedProviderBatch,
  type PolledBatch,
} from '@nightshift/db';
import type { RemoteBatch } from '../../provider/port.ts';
import { withLease, withLeases } from '../../leases/with-lease.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { sentMsAgo } from '../../flow-parts/provider-time.ts';
import { settleOpenSteps } from '../../flow-parts/results/settle-open-steps.ts';
import { readSeenTurnarounds, type SeenTurnarounds } from '../../flow-parts/seen-turnarounds.ts';
import { CLAIM_MAX, claimForLook, look, type Looked } from './look.ts';

const FLOW = 'poll-provider-batches';
/** Time after its expiry from which a batch that has not ended alarms an operator. Unit: milliseconds. */
const OVERDUE_MS = 3_600_000;
/** Interval between alarms for a missing answer. Unit: milliseconds. */
const TELL_AGAIN_MS = 3_600_000;
/** Statuses of a refused key: a retry does not help. */
const KEY_REFUSED: ReadonlySet<number | null> = new Set([401, 403]);
/** Longest turnaround that is learnt from; a provider batch expires after a day. Unit: milliseconds. */
const TURNAROUND_MS_MAX = 48 * 3_600_000;
/** Minimum interval between two looks. Unit: milliseconds. */
const LOOK_INTERVAL_MS = 1_000;

/**
 * Polls every due submitted provider batch; one `list` serves many. Batches absent from the list are retrieved by id. Ended
 * batches are due for ingest at once.
 */
export async function pollProviderBatches(deps: FlowDeps): Promise<FlowReport> {
  const { leases } = deps;
  const polls = await claimForLook(deps);
  const { batches: claimed } = polls;
  if (claimed.length === 0) return { flow: FLOW, worked: false, ...untilNext(deps, polls.next_in_ms, 0) };
  // A look may take longer than a lease, so one statement renews the leases of all rows.
  const claims = claimed.map(
    ({ id, lease_epoch }) => ({ table: 'provider_batch', id, epoch: lease_epoch }) as const,
  );
  return withLeases(leases, claims, () => pollClaimed(deps, polls));
}

async function pollClaimed(deps: FlowDeps, polls: ClaimedPolls): Promise<FlowReport> {
  const { batches: claimed, now } = polls;
  const { db, bell, hooks } = deps;
  const looked = await look(deps, polls);
  const { unanswered, calls } = looked;
  await hooks?.('poll.after_look');
  const judged = judgeEach(deps, polls, looked, await readSeenTurnarounds(deps, db));
  const { polled, gone, newlyMissing, isNews } = judged;
  const ended = await inTransaction(db, (trx) => commitPolled(trx, polled));
  await hooks?.('poll.after_commit');
  await bell.ring(ended.map((id) => ({ kind: 'ingest', id })));
  // An adopted, unproven batch was not ours: that it is gone says nothing about ours.
  const doubts = gone.length === 0 ? [] : await readOpenDoubts(db);
  const isDoubted = ({ id }: ClaimedProviderBatch): boolean =>
    doubts.some((doubt) => doubt.provider_batch_id === id);
  const foreign = gone.filter(isDoubted);
  const lost = gone.filter((batch) => !isDoubted(batch));
  for (const { id, lease_epoch, state } of foreign) {
    const lease = { table: 'provider_batch', id, epoch: lease_epoch } as const;
    await inTransaction(db, (trx) => commitDisproved(trx, lease, state));
  }
  for (const batch of lost) await giveUp(deps, batch);
  const overdue = claimed.filter(
    ({ id, expires_at }) =>
      expires_at !== null && now.getTime() - expires_at.getTime() > OVERDUE_MS && !ended.includes(id),
  );
  const alarm =
    lost.length > 0
      ? 'the provider no longer knows a batch'
      : overdue.length > 0
        ? 'a batch has not ended an hour after its expiry'
        : null;
  const silences = [...unanswered.values()];
  const refused = silences.find(({ status }) => KEY_REFUSED.has(status));
  const waits = polled.flatMap(({ move, delay_ms }) => (move === 'wait' ? [delay_ms] : []));
  const earliest = [...waits, polls.next_in_ms].reduce(
    (least, ms) => (ms === null || (least !== null && least <= ms) ? least : ms),
    null,
  );
  // A full claim may have left rows behind; a smaller claim proves that no other row is due.
  return {
    flow: FLOW,
    worked: claimed.length === CLAIM_MAX,
    ...untilNext(deps, earliest, calls),
    looked_at: claimed.length,
    ended: ended.length,
    lost: lost.length,
    ...(unanswered.size === 0
      ? {}
      : {
          unanswered: unanswered.size,
          reason: (refused ?? silences[0])?.reason,
          ...(isNews ? { [refused === undefined ? 'warning' : 'alarm']: true } : {}),
        }),
    ...(newlyMissing === 0
      ? {}
      : {
          missing: newlyMissing,
          reason: 'the provider does not know a batch; it is asked again',
          warning: true,
        }),
    ...(foreign.length === 0
      ? {}
      : {
          not_ours: foreign.length,
          reason: 'an adopted batch is gone before a line proved it; the search goes on',
          warning: true,
        }),
    ...(alarm === null ? {} : { reason: alarm, alarm: true }),
    calls,
  };
}

/** The consequences of a look. */
interface Judged {
  readonly polled: readonly PolledBatch[];
  /** Batches that the provider no longer knows. */
  readonly gone: readonly ClaimedProviderBatch[];
  readonly newlyMissing: number;
  /** An answer is missing, which no alarm has said lately. */
  readonly isNews: boolean;
}

function judgeEach(
  deps: FlowDeps,
  { batches: claimed, now }: ClaimedPolls,
  { seen, unanswered, unasked }: Looked,
  turnarounds: SeenTurnarounds,
): Judged {
  const { settings } = deps;
  const polled: PolledBatch[] = [];
  const gone: ClaimedProviderBatch[] = [];
  let newlyMissing = 0;
  let isNews = false;
  for (const batch of claimed) {
    const lease = { table: 'provider_batch', id: batch.id, epoch: batch.lease_epoch } as const;
    if (unasked.has(batch.id)) {
      // Negative for a due batch: it keeps its place among the due ones.
      const delay_ms = (batch.next_due_at ?? now).getTime() - now.getTime();
      polled.push({ lease, move: 'wait', delay_ms, missing: batch.missing_since !== null });
      continue;
    }
    const silence = unanswered.get(batch.id);
    if (silence !== undefined) {
      // No answer proves nothing: ask again at the usual interval or after retry-after, and count no failure. A "not found"
      // from before an outage no longer counts: it must last without a break.
      const isRecent = now.getTime() - lastAlarmMs(batch) <= TELL_AGAIN_MS;
      isNews ||= !isRecent;
      polled.push({
        lease,
        move: 'wait',
        delay_ms: Math.max(settings.poll.poll_interval_ms, silence.retry_after_ms ?? 0),
        missing: false,
        ...(isRecent ? {} : { error: { reason: silence.reason, told_at: now.toISOString() } }),
      });
      continue;
    }
    const remote = seen.get(batch.id) ?? null;
    const decision = decide(deps, batch, remote, now, turnarounds);
    // An outage is over; other fields of the row stand.
    const cleared = lastAlarmMs(batch) > 0 ? { error: null } : {};
    if (decision.kind === 'lost') gone.push(batch);
    else if (decision.kind === 'ended')
      polled.push({
        lease,
        move: 'ended',
        delay_ms: 0,
        missing: false,
        ...cleared,
        ...turnaroundOf(batch, remote),
      });
    else {
      if (decision.missing && batch.missing_since === null) newlyMissing += 1;
      polled.push({
        lease,
        move: 'wait',
        delay_ms: decision.delay_ms,
        missing: decision.missing,
        ...cleared,
      });
    }
  }
  return { polled, gone, newlyMissing, isNews };
}

/** Returns the time of the last alarm for a missing answer. Unit: milliseconds since the epoch; 0: never. */
function lastAlarmMs({ error }: ClaimedProviderBatch): number {
  const at = isJsonObject(error) ? error['told_at'] : undefined;
  return typeof at === 'string' ? Date.parse(at) : 0;
}

/**
 * Returns the delay until the next batch is due, because no signal announces it. At least the minimum interval, so that
 * neighbours share a look, and the time that the `calls` of this look keep others away.
 */
function untilNext(
  { settings }: FlowDeps,
  nextMs: number | null,
  calls: number,
): Pick<FlowReport, 'again_in_ms'> {
  const { looks, poll_interval_ms } = settings.poll;
  const least = Math.max(
    1,
    Math.min(LOOK_INTERVAL_MS, poll_interval_ms),
    looks === undefined ? 0 : calls * lookSpacingMs(looks),
  );
  return nextMs === null ? {} : { again_in_ms: Math.max(least, Math.ceil(nextMs)) };
}

function decide(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  remote: RemoteBatch | null,
  now: Date,
  turnarounds: SeenTurnarounds,
): PollDecision {
  const row = {
    submitted_at: batch.submitted_at ?? now,
    missing_since: batch.missing_since,
    sent_ms_ago: sentMsAgo(deps, batch),
  };
  return decideAfterPoll(row, remote, now, deps.settings.poll, turnarounds(batch.models));
}

/** Returns the turnaround of an ended batch by the provider's clock; nothing after a cancel, or a jump of the clock. */
function turnaroundOf(
  { state }: ClaimedProviderBatch,
  remote: RemoteBatch | null,
): Pick<PolledBatch, 'turnaround_ms'> {
  if (state !== 'submitted' || remote?.ended_at == null) return {};
  const turnaround_ms = remote.ended_at.getTime() - remote.created_at.getTime();
  return turnaround_ms < 0 || turnaround_ms > TURNAROUND_MS_MAX ? {} : { turnaround_ms };
}

/**
 * Gives up a batch that the provider has not found for longer than any lag. Its steps are sent again within their attempts,
 * and the hunt for orphans watches for it.
 */
async function giveUp(deps: FlowDeps, batch: ClaimedProviderBatch): Promise<void> {
  const claim = { table: 'provider_batch', id: batch.id, epoch: batch.lease_epoch } as const;
  return withLease(deps.leases, claim, async (lease) => {
    await settleOpenSteps(deps, batch, lease);
    await deps.hooks?.('poll.before_reject');
    await inTransaction(deps.db, (trx) => commitLost(trx, lease, batch.state));
  });
}
