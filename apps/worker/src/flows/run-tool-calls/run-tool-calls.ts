import { NO_TOOL_POLICY } from '@nightshift/agent-core';
import {
  claimToolsChunk,
  commitChunkFailed,
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
import type { HeldLease } from '../../leases/keeper.ts';
import { withLease } from '../../leases/with-lease.ts';
import { yieldEvery } from '../../yielding.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { ringAfterCommit } from '../../flow-parts/ring.ts';
import { askInWaves, keepBeforeLeaving, keepReplies, type CallReplies } from './ask-in-waves.ts';
import { callsOf, isBuiltInCall, type Call } from '../../flow-parts/calls/call.ts';
import { commitInParts, commitPoisoned, joinReports } from './commit-in-parts.ts';

const FLOW = 'run-tool-calls';

/** Maximum characters of collected results, by the limits of their tools: a thousand results of the default length. */
const COLLECTED_CHARS_MAX = 50_000_000;

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
 * - A chunk with long results is done in portions, to limit memory.
 * - Calls of a batch being cancelled are not made.
 */
export async function runToolCalls(deps: FlowDeps): Promise<FlowReport> {
  const { db, claimant } = deps;
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
  const planned = await readCalls(deps, chunk.run_ids);
  const open: Call[] = [];
  const collected: CallReplies = { replies: new Map(), kept: new Set() };
  try {
    return await carryOutPortions(deps, chunk, lease, { planned, open, collected });
  } catch (error) {
    // Finished work is always stored. If that fails too, the first error is reported.
    await keepBeforeLeaving(deps, lease, open, collected).catch(() => undefined);
    throw error;
  }
}

/**
 * Carries out the chunk in portions. `open`: collects the calls sent to the tool host, whose replies stay in `collected` until
 * stored.
 */
async function carryOutPortions(
  deps: FlowDeps,
  chunk: ClaimedRunChunk,
  lease: HeldLease,
  {
    planned,
    open,
    collected,
  }: { readonly planned: readonly Call[]; readonly open: Call[]; readonly collected: CallReplies },
): Promise<FlowReport> {
  const { db, hooks } = deps;
  const about = {
    flow: FLOW,
    worked: true,
    chunk_id: chunk.id,
    taken_over_from: chunk.taken_over_from,
    runs: Map.groupBy(planned, (call) => call.run.run_id).size,
    calls: planned.filter(isOpen).length,
  };
  let ended_runs = 0;
  let left: readonly string[] = [];
  let reason: string | null = null;
  for (const part of portionsOf(chunk.run_ids, planned)) {
    // Later portions are read again: their batch may be cancelled meanwhile.
    const calls = part.length === chunk.run_ids.length ? planned : await readCalls(deps, part);
    const asked = calls.filter(isOpen);
    open.push(...asked);
    await askInWaves(deps, lease, asked, collected);
    if (lease.signal.aborted) {
      await keepReplies(deps, lease, open, collected);
      await inTransaction(db, async (trx) => {
        await holdLease(trx, lease);
        await releaseLease(trx, lease, 0);
      });
      return { ...about, outcome: 'given_back', kept: collected.kept.size };
    }
    await hooks?.('tools.after_calls');
    const byRun = Map.groupBy(calls, (call) => call.run.run_id);
    const committed = await commitInParts(deps, chunk, lease, byRun, collected, part);
    const unstored = new Set(committed.left);
    for (const call of asked) if (!unstored.has(call.run.run_id)) collected.replies.delete(call.key);
    ended_runs += committed.report.ended_runs;
    left = [...left, ...committed.left];
    reason ??= committed.reason;
    await hooks?.('tools.after_commit');
    await markGathered(db, 'tool calls');
    await ringAfterCommit(
      deps,
      committed.report,
      await markFinishedBatches(db, committed.report.ended_batch_ids),
    );
  }
  await deps.work.flush(db);
  if (reason === null) return { ...about, ended: ended_runs };

  const settled = await settleLeft(deps, chunk, lease, { open, collected, left: new Set(left) });
  await ringAfterCommit(deps, settled, await markFinishedBatches(db, settled.ended_batch_ids));
  return {
    ...about,
    ended: ended_runs + settled.ended_runs,
    outcome: 'poison',
    poisoned: settled.ended_runs,
    left: left.length - settled.ended_runs,
    reason,
  };
}

/**
 * Reads the calls of acting runs, with the known outcome of each.
 * Yields between checks of arguments, which may take long, so that the lease is renewed.
 */
async function readCalls({ db, definitions }: FlowDeps, runIds: readonly string[]): Promise<readonly Call[]> {
  const acting = await readActingRuns(db, runIds);
  const cached = await definitions.get(
    db,
    acting.map((run) => run.definition_id),
  );
  const yieldIfDue = yieldEvery();
  const calls: Call[] = [];
  for (const run of acting) {
    await yieldIfDue();
    calls.push(...callsOf(run, cached.get(run.definition_id)?.toolPolicy ?? NO_TOOL_POLICY));
  }
  return calls;
}

/** Whether the call goes to the tool host. */
function isOpen(call: Call): boolean {
  return call.known === null && !isBuiltInCall(call);
}

/**
 * Splits the runs of a chunk into ordered portions whose results fit in memory; at least one portion. A run without open
 * calls goes with its neighbours.
 */
function portionsOf(runIds: readonly string[], calls: readonly Call[]): readonly (readonly string[])[] {
  const openOf = Map.groupBy(calls.filter(isOpen), (call) => call.run.run_id);
  const portions: string[][] = [[]];
  let chars = 0;
  for (const id of runIds) {
    const most = (openOf.get(id) ?? []).reduce(
      (sum, call) => sum + (call.planned.tool?.return_char_limit ?? 0),
      0,
    );
    if (chars > 0 && chars + most > COLLECTED_CHARS_MAX) {
      portions.push([]);
      chars = 0;
    }
    portions.at(-1)?.push(id);
    chars += most;
  }
  return portions;
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
  parts: {
    readonly open: readonly Call[];
    readonly collected: CallReplies;
    readonly left: ReadonlySet<string>;
  },
): Promise<CommitReport> {
  const { left } = parts;
  const lost = await keepReplies(
    deps,
    lease,
    parts.open.filter((call) => left.has(call.run.run_id)),
    parts.collected,
  );
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
