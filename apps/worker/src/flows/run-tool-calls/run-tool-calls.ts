import {
  claimToolsChunk,
  commitChunkFailed,
  commitRunsPutOff,
  holdLease,
  inTransaction,
  judgeError,
  markFinishedBatches,
  markGathered,
  NOTHING_COMMITTED,
  readActingRuns,
  releaseLease,
  type ClaimedRunChunk,
  type CommitReport,
} from '@nightshift/db';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { ringAfterCommit } from '../../flow-parts/ring.ts';
import type { HeldLease } from '../../leases/keeper.ts';
import { withLease } from '../../leases/with-lease.ts';
import { commitInParts, commitPoisoned, joinReports } from './commit-in-parts.ts';
import { keepBeforeLeaving, keepReplies } from './keep-replies.ts';
import { pause } from './pause.ts';
import { readCalls } from './read-calls.ts';
import {
  forgetReplies,
  freePlaces,
  hasEnded,
  openCalls,
  startableCalls,
  startCalls,
  startedCalls,
  strandedRuns,
  untilQuiet,
  type ChunkCalls,
} from './start-calls.ts';

const FLOW = 'run-tool-calls';

/** Time for which replies are gathered before a commit while other calls are under way. Unit: milliseconds. */
const GATHER_MS = 500;
/** Time for which freed places are gathered before waiting calls start. Unit: milliseconds. */
const START_GATHER_MS = 2;
/** Interval at which runs of a host that takes no calls are put off, while calls of others are under way. Unit: milliseconds. */
const RESTING_LOOK_MS = 1_000;

/** Time after which a chunk that waits for limits of its tools looks whether its batches were cancelled. Unit: milliseconds. */
const GATED_LOOK_MS = 5_000;
/**
 * Time after which a chunk that left comes back: a quarter of its age, within these bounds. Unit: milliseconds.
 */
const LEAVE_MS_MIN = 1_000;
const LEAVE_MS_MAX = 60_000;

/** Workers that crash over a chunk before the chunk counts as the cause. */
const TAKEOVERS_MAX = 3;

/** Failures of a run alone in its chunk before it ends. */
const POISON_FAILURES = 3;

/**
 * Carries out the calls of one chunk of runs and sends each run on with all its results in one message.
 * - Calls with side effects are journalled just before they run.
 * - After a crash, a call that must run once is `unknown`: it is never repeated, and the model is told. Others run again
 *   under the same idempotency key.
 * - A worker that gives up the chunk stores its results on the rows for the next worker. While the database is away it
 *   retries for half a minute.
 * - Runs are committed as their calls end, so that a slow call holds up its own run alone.
 * - Calls of a batch being cancelled are not made.
 * - Runs whose host takes no calls are put off, with a delay that grows; all others go on.
 * - A chunk whose calls wait for limits of their tools leaves, if earlier chunks of the worker use these limits up.
 */
export async function runToolCalls(deps: FlowDeps): Promise<FlowReport> {
  const { db, claimant, tools } = deps;
  const delayMs = tools.places.claimDelayMs();
  if (delayMs > 0) return { flow: FLOW, worked: false, again_in_ms: delayMs };
  const chunk = await claimToolsChunk(db, claimant);
  if (chunk === null) return { flow: FLOW, worked: false };
  const claim = { table: 'run_chunk', id: chunk.id, epoch: chunk.lease_epoch } as const;
  return withLease(deps.leases, claim, async (lease) => {
    if (chunk.takeovers >= TAKEOVERS_MAX) {
      return putAside(deps, chunk, lease, `${chunk.takeovers} workers crashed while they held it`);
    }
    try {
      return await carryOutChunk(deps, chunk, lease);
    } catch (error) {
      if (judgeError(error) !== 'poison') throw error;
      return putAside(deps, chunk, lease, error instanceof Error ? error.message : 'unknown');
    }
  });
}

async function carryOutChunk(deps: FlowDeps, chunk: ClaimedRunChunk, lease: HeldLease): Promise<FlowReport> {
  await deps.hooks?.('tools.after_claim');
  const planned = await deps.callSlots.run(() => readCalls(deps, chunk.run_ids));
  const calls = openCalls(deps, lease, planned);
  try {
    return await carryOutCalls(deps, chunk, lease, calls);
  } catch (error) {
    // The calls under way end by themselves, or with the lease: broken off, a call that must not be repeated would be in doubt.
    await untilQuiet(calls);
    // Finished work is always stored. If that fails too, the first error is reported.
    await keepBeforeLeaving(deps, lease, startedCalls(calls), calls).catch(() => undefined);
    throw error;
  } finally {
    calls.places.close();
  }
}

/** The uncommitted runs of a chunk, and the runs whose results cannot be stored. */
interface Remaining {
  readonly runs: Set<string>;
  readonly left: Set<string>;
  reason: string | null;
  ended_runs: number;
  put_off: number;
  /** Longest delay of a run that is put off. Unit: milliseconds. */
  delay_ms: number;
}

/**
 * Starts calls as places become free, and commits runs as their calls end: those of one moment together, so that a chunk
 * of fast calls is one commit, and a slow call holds up its own run alone.
 */
async function carryOutCalls(
  deps: FlowDeps,
  chunk: ClaimedRunChunk,
  lease: HeldLease,
  calls: ChunkCalls,
): Promise<FlowReport> {
  const { callSlots } = deps;
  const remaining: Remaining = {
    ...{ runs: new Set(chunk.run_ids), left: new Set(), reason: null },
    ...{ ended_runs: 0, put_off: 0, delay_ms: 0 },
  };
  const about = {
    flow: FLOW,
    worked: true,
    chunk_id: chunk.id,
    taken_over_from: chunk.taken_over_from,
    runs: calls.byRun.size,
    calls: calls.waiting.length,
  };
  if (chunk.run_ids.some((id) => hasEnded(calls, id))) calls.repliedMs = performance.now();
  let putOffMs = performance.now() + RESTING_LOOK_MS;
  while (remaining.runs.size > 0) {
    if (lease.signal.aborted) return { ...about, ...(await giveBack(deps, lease, calls, 0)) };
    if (startableCalls(deps, calls).length > 0) await callSlots.run(() => startCalls(deps, lease, calls));
    const isQuiet = calls.underWay.size === 0;
    const waitedMs = calls.repliedMs === undefined ? 0 : performance.now() - calls.repliedMs;
    if (calls.repliedMs !== undefined && (isQuiet || waitedMs >= GATHER_MS)) {
      await callSlots.run(() => commitEnded(deps, chunk, lease, calls, remaining));
    } else {
      const isAway = calls.refusals.size > 0 || startableCalls(deps, calls).length < calls.waiting.length;
      if (isAway && (isQuiet || performance.now() >= putOffMs)) {
        putOffMs = performance.now() + RESTING_LOOK_MS;
        if (await putOff(deps, lease, calls, remaining)) continue;
      }
      if (isQuiet && calls.places.isSurplus()) {
        const left = await giveBack(deps, lease, calls, delayOfSurplusMs(deps, chunk));
        return { ...about, ended: remaining.ended_runs, ...putOffReport(calls, remaining), ...left };
      }
      const restMs = isAway ? RESTING_LOOK_MS : calls.places.waitsForGrants() ? GATED_LOOK_MS : undefined;
      await calls.waker.wait(calls.repliedMs === undefined ? restMs : GATHER_MS - waitedMs);
      // Calls that end together make room for others together.
      if (startableCalls(deps, calls).length > 0 && calls.underWay.size > 0) await pause(START_GATHER_MS);
    }
  }
  await deps.work.flush(deps.db);
  const over = { ...about, ended: remaining.ended_runs, ...putOffReport(calls, remaining) };
  if (remaining.reason === null) return over;
  const settled = await settleLeft(deps, chunk, lease, calls, remaining.left);
  await ringAfterCommit(deps, settled, await markFinishedBatches(deps.db, settled.ended_batch_ids));
  return {
    ...over,
    ended: remaining.ended_runs + settled.ended_runs,
    outcome: 'poison',
    poisoned: settled.ended_runs,
    left: remaining.left.size - settled.ended_runs,
    reason: remaining.reason,
  };
}

/**
 * Commits the runs whose calls have all ended, and stores the replies of the others on their rows. Runs that cannot be stored
 * stay in the chunk.
 */
async function commitEnded(
  deps: FlowDeps,
  chunk: ClaimedRunChunk,
  lease: HeldLease,
  calls: ChunkCalls,
  remaining: Remaining,
): Promise<void> {
  const { db, hooks } = deps;
  calls.repliedMs = undefined;
  await hooks?.('tools.after_calls');
  // Calls that the lost lease has ended are not their runs' results: the next worker makes them.
  if (lease.signal.aborted) return;
  const part = [...remaining.runs].filter((id) => hasEnded(calls, id));
  const ended = new Set(part);
  const beside = startedCalls(calls).filter(({ run }) => !ended.has(run.run_id));
  // A result that cannot be stored ends its run later; until then it must not keep other calls from starting.
  const lost = new Set((await keepReplies(deps, lease, beside, calls)).map(({ key }) => key));
  for (const [key, placed] of calls.started)
    if (calls.kept.has(key) || lost.has(key)) calls.places.stored(placed);
  if (part.length === 0) return;
  const committed = await commitInParts(deps, chunk, lease, calls.byRun, calls, part);
  const left = new Set(committed.left);
  for (const id of part) {
    remaining.runs.delete(id);
    freePlaces(calls, id);
    if (left.has(id)) remaining.left.add(id);
    else forgetReplies(calls, id);
  }
  remaining.reason ??= committed.reason;
  remaining.ended_runs += committed.report.ended_runs;
  // The batch of a waiting call may be cancelled meanwhile.
  calls.staleMs = 0;
  await hooks?.('tools.after_commit');
  await markGathered(db, 'tool calls');
  await ringAfterCommit(
    deps,
    committed.report,
    await markFinishedBatches(db, committed.report.ended_batch_ids),
  );
}

/** Leaves runs that wait for an absent host to a later claim, with their results so far; false without such runs. */
async function putOff(
  deps: FlowDeps,
  lease: HeldLease,
  calls: ChunkCalls,
  remaining: Remaining,
): Promise<boolean> {
  const { runs, rest_ms } = strandedRuns(deps, calls);
  if (runs.size === 0) return false;
  const own = startedCalls(calls).filter(({ run }) => runs.has(run.run_id));
  await keepReplies(deps, lease, own, calls, true);
  await inTransaction(deps.db, async (trx) => {
    await holdLease(trx, lease);
    await commitRunsPutOff(trx, lease, [...runs], rest_ms);
  });
  calls.waiting = calls.waiting.filter(({ run_id }) => !runs.has(run_id));
  // The next start registers the waiting calls of the other runs again.
  calls.places.withdraw();
  for (const id of runs) {
    remaining.runs.delete(id);
    freePlaces(calls, id);
    forgetReplies(calls, id);
  }
  remaining.put_off += runs.size;
  remaining.delay_ms = Math.max(remaining.delay_ms, rest_ms);
  await markGathered(deps.db, 'tool calls');
  return true;
}

function putOffReport({ refusals }: ChunkCalls, { put_off, delay_ms }: Remaining): Partial<FlowReport> {
  if (put_off === 0) return {};
  const told = [...refusals].map(([pool, result]) => ` ${pool}: ${result}`).join(';');
  const reason = `The tool host does not take calls.${told}`;
  return { outcome: 'put off', warning: true, put_off, reason, again_in_ms: Math.ceil(delay_ms) };
}

/** Returns the delay after which a chunk that waits for used-up limits comes back; none when the worker ends. Unit: milliseconds. */
function delayOfSurplusMs({ tools }: FlowDeps, { age_ms }: ClaimedRunChunk): number {
  if (tools.places.grants.isClosed()) return 0;
  return Math.min(LEAVE_MS_MAX, Math.max(LEAVE_MS_MIN, age_ms / 4));
}

/** Waits for the calls under way and leaves the chunk, with the results so far, to the next worker, due in `dueInMs`. */
async function giveBack(
  deps: FlowDeps,
  lease: HeldLease,
  calls: ChunkCalls,
  dueInMs: number,
): Promise<{ readonly outcome: 'given_back'; readonly kept: number }> {
  await untilQuiet(calls);
  await keepReplies(deps, lease, startedCalls(calls), calls);
  await inTransaction(deps.db, async (trx) => {
    await holdLease(trx, lease);
    await releaseLease(trx, lease, dueInMs);
  });
  return { outcome: 'given_back', kept: calls.kept.size };
}

/**
 * Handles runs whose results could not be stored.
 * Their replies are stored call by call, and the chunk, which holds only them now, is retried later without calls. A run
 * ends as poison if that fails too, or after enough failures alone.
 */
async function settleLeft(
  deps: FlowDeps,
  chunk: ClaimedRunChunk,
  lease: HeldLease,
  calls: ChunkCalls,
  left: ReadonlySet<string>,
): Promise<CommitReport> {
  const own = startedCalls(calls).filter(({ run }) => left.has(run.run_id));
  const lost = await keepReplies(deps, lease, own, calls);
  const lastTry = chunk.run_ids.length === 1 && chunk.failures + 1 >= POISON_FAILURES;
  const ending = lastTry ? left : new Set(lost.map((call) => call.run.run_id));
  let ended = NOTHING_COMMITTED;
  if (ending.size > 0) {
    // Read again: the rows now hold the known outcome of each call.
    for (const run of await readActingRuns(deps.db, [...ending])) {
      ended = joinReports(ended, await commitPoisoned(deps, chunk, lease, [run], [run.run_id]));
    }
  }
  if (ending.size < left.size) await inTransaction(deps.db, (trx) => commitChunkFailed(trx, lease));
  return ended;
}

/**
 * Handles a chunk that cannot be read or journalled, or that crashes its workers. It comes back in halves. A run that fails
 * alone again ends, and its calls are answered with errors.
 */
async function putAside(
  deps: FlowDeps,
  chunk: ClaimedRunChunk,
  lease: HeldLease,
  reason: string,
): Promise<FlowReport> {
  const { db } = deps;
  const about = { flow: FLOW, worked: true, chunk_id: chunk.id, runs: chunk.run_ids.length, reason };
  if (chunk.run_ids.length > 1 || chunk.failures + 1 < POISON_FAILURES) {
    await inTransaction(db, (trx) => commitChunkFailed(trx, lease));
    return { ...about, outcome: 'halved' };
  }
  const acting = await readActingRuns(db, chunk.run_ids);
  const ended = await commitPoisoned(deps, chunk, lease, acting, chunk.run_ids);
  await ringAfterCommit(deps, ended, await markFinishedBatches(db, ended.ended_batch_ids));
  return { ...about, outcome: 'poison' };
}
