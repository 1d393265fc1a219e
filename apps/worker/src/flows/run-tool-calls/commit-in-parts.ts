import { decidePoisonedResults, decideResults, NO_TOOL_POLICY, type StepCall } from '@nightshift/agent-core';
import {
  commitToolResults,
  holdLease,
  inTransaction,
  isStatementTimeout,
  judgeError,
  lockRuns,
  NOTHING_COMMITTED,
  type ActingRun,
  type ClaimedRunChunk,
  type CommitReport,
  type ToolResultsOfRun,
} from '@nightshift/db';
import type { HeldLease } from '../../leases/keeper.ts';
import { openChunkMemory } from '../../flow-parts/memory/chunk-memory.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import { recordEnds } from '../../flow-parts/record-work.ts';
import type { CallReplies } from './keep-replies.ts';
import { callsIn, isBuiltInCall, isMemoryCall, settledBy, type Call } from '../../flow-parts/calls/call.ts';

/** Result of committing the runs of a chunk. */
export interface PartsCommitted {
  readonly report: CommitReport;
  /** Runs whose results cannot be stored even alone. They are still in the chunk. */
  readonly left: readonly string[];
  /** The reason if any are left. */
  readonly reason: string | null;
}

/** Joins the reports of two commits. */
export function joinReports(one: CommitReport, other: CommitReport): CommitReport {
  return {
    ready: one.ready || other.ready,
    tools: one.tools || other.tools,
    ended_batch_ids: [...new Set([...one.ended_batch_ids, ...other.ended_batch_ids])],
    ended_runs: one.ended_runs + other.ended_runs,
  };
}

/**
 * Commits the results of runs and sends the runs on.
 * On a failure by the rows or a timeout, the same results are committed by halves until the failing runs are alone. No call
 * is repeated because of a neighbour.
 */
export async function commitInParts(
  deps: FlowDeps,
  chunk: ClaimedRunChunk,
  lease: HeldLease,
  calls: ReadonlyMap<string, readonly Call[]>,
  collected: CallReplies,
  part: readonly string[] = chunk.run_ids,
): Promise<PartsCommitted> {
  try {
    const { report, results } = await inTransaction(deps.db, async (trx) => {
      await holdLease(trx, lease);
      const runs = await lockRuns(
        trx,
        part.filter((id) => calls.has(id)),
      );
      const definitions = await deps.definitions.get(
        trx,
        [...runs.values()].map((run) => run.definition_id),
      );
      const acting = [...runs.values()].filter((run) => run.state === 'acting');
      const memoryOf = await openChunkMemory(
        trx,
        acting.flatMap((run) => {
          const asked = (calls.get(run.id) ?? []).filter(({ planned }) => isMemoryCall(planned));
          const open = asked.filter((call) => call.known === null).map((call) => call.planned);
          const done = asked.filter((call) => call.known?.state === 'succeeded').map((call) => call.planned);
          return open.length === 0 ? [] : [{ run, calls: open, done }];
        }),
      );
      const results = acting.map((run) => {
        const toolPolicy = definitions.get(run.definition_id)?.toolPolicy ?? NO_TOOL_POLICY;
        const ended = (calls.get(run.id) ?? []).map((call) => stepCallOf(call, collected));
        const decision = decideResults(run, ended, toolPolicy, memoryOf(run, toolPolicy));
        return { run, decision, outputs: outputsOf(calls.get(run.id) ?? [], collected) };
      });
      const whole = part.length === chunk.run_ids.length;
      const report = await commitToolResults(trx, chunk.id, results, whole ? null : part);
      await deps.hooks?.('tools.before_commit');
      return { report, results };
    });
    await recordEnds(
      deps,
      results.map(({ run, decision }) => ({ run, move: decision.run })),
    );
    return { report, left: [], reason: null };
  } catch (error) {
    if (judgeError(error) !== 'poison' && !isStatementTimeout(error)) throw error;
    if (part.length === 1) {
      return {
        report: NOTHING_COMMITTED,
        left: part,
        reason: error instanceof Error ? error.message : 'unknown',
      };
    }
    const middle = Math.ceil(part.length / 2);
    const first = await commitInParts(deps, chunk, lease, calls, collected, part.slice(0, middle));
    const second = await commitInParts(deps, chunk, lease, calls, collected, part.slice(middle));
    return {
      report: joinReports(first.report, second.report),
      left: [...first.left, ...second.left],
      reason: first.reason ?? second.reason,
    };
  }
}

/** Ends a run of the chunk as poison and answers its calls with errors. The rows keep the known outcome of each call. */
export async function commitPoisoned(
  deps: FlowDeps,
  chunk: ClaimedRunChunk,
  lease: HeldLease,
  acting: readonly ActingRun[],
  part: readonly string[],
): Promise<CommitReport> {
  return inTransaction(deps.db, async (trx) => {
    await holdLease(trx, lease);
    const runs = await lockRuns(trx, part);
    const results = acting.flatMap(({ run_id, content, calls }): readonly ToolResultsOfRun[] => {
      const run = runs.get(run_id);
      if (run?.state !== 'acting') return [];
      return [{ run, decision: decidePoisonedResults(run, callsIn(content), calls) }];
    });
    return commitToolResults(trx, chunk.id, results, part);
  });
}

/** Returns the outputs of calls that this worker has made. */
function outputsOf(
  calls: readonly Call[],
  { replies }: CallReplies,
): NonNullable<ToolResultsOfRun['outputs']> {
  return calls.flatMap(({ key, planned }) => {
    const output = replies.get(key);
    return output === undefined ? [] : [{ call_index: planned.index, output }];
  });
}

/** Returns a call with its outcome; built-in calls are still open. */
function stepCallOf(call: Call, { replies }: CallReplies): StepCall {
  const { planned, known } = call;
  if (known !== null) return { planned, ...known };
  if (isBuiltInCall(call)) return { planned, outcome: null };
  const reply = replies.get(call.key);
  if (reply === undefined) throw new Error(`Call ${call.key} was not sent to the tool host.`);
  return { planned, ...settledBy(planned.tool, reply), duration_ms: Math.round(reply.duration_ms) };
}
