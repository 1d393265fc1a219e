import type { ResultsDecision, StepDecision, StepKey } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { writeBlockChanges } from '../memory/block-changes.ts';
import { writeCallOutputs, type OutputOfCall } from './call-outputs.ts';
import {
  endAnsweredSteps,
  endToolCalls,
  messageRow,
  moveRuns,
  writeMessages,
  writeSteps,
  writeToolCalls,
  type DecidedRun,
  type RunMoved,
} from './decided-rows.ts';
import type { RunToDecide } from '../../reads/run/runs-to-decide.ts';
import { NONE_PASSED_ON, passConversationsOn } from './pass-conversations.ts';
import { forceGenericPlan } from '../force-generic-plan.ts';
import { settleReservations } from '../batch/reservations.ts';
import { putChunk, putReadyChunks } from './run-chunks.ts';
import { countFailedLines, noteFailures } from './failures.ts';
import { countSummaries, writeSummaries } from './summaries.ts';
import {
  addToTallies,
  talliesOfPassing,
  tallyOfBill,
  tallyOfMove,
  tallySlot,
  type TallyChange,
} from '../batch/tallies.ts';

/** The effects of a commit, for which the caller rings the bell. */
export interface CommitReport {
  readonly ready: boolean;
  readonly tools: boolean;
  readonly ended_batch_ids: readonly string[];
  readonly ended_runs: number;
}

/** The report of an empty commit. */
export const NOTHING_COMMITTED: CommitReport = {
  ready: false,
  tools: false,
  ended_batch_ids: [],
  ended_runs: 0,
};

/**
 * Applies decided result lines: steps, messages, tool calls, block changes, runs, counts, chunks and conversations, in a
 * constant number of statements.
 * The caller holds the lease of the provider batch (`holdLease`), which protects runs in flight (ADR 0026), and the locks
 * of the blocks.
 * Throws: `stale`, keeping nothing, when a step or run has changed since its decision.
 * Locks: provider batch → agents → blocks → steps → runs → budgets of capped batches → conversations → batch tallies →
 * counts of failed lines. Transactions that lock runs in flight first, to settle them, lock no blocks.
 */
export async function commitDecisions(
  trx: Tx,
  decided: readonly DecidedRun[],
  slot = tallySlot(),
): Promise<CommitReport> {
  if (decided.length === 0) return NOTHING_COMMITTED;
  await forceGenericPlan(trx);
  await writeSteps(trx, decided);
  await writeMessages(
    trx,
    decided.flatMap(({ run, decision: { key, step, messages } }) =>
      messages.map((message) => messageRow(run, step.applies ? key.number : null, message)),
    ),
  );
  await writeToolCalls(trx, decided);
  await writeBlockChanges(
    trx,
    decided.flatMap(({ decision }) => decision.changes),
  );
  await countSummaries(trx, decided);
  const moves = decided.map(({ run, decision }) => ({
    run,
    move: decision.run,
    last_seq: run.last_seq + decision.messages.length,
  }));
  await moveRuns(trx, moves);
  await noteFailures(trx, moves);
  await settleReservations(
    trx,
    decided.flatMap(({ run, decision: { key, step } }) =>
      run.budgeted
        ? [
            {
              batch_id: run.batch_id,
              key,
              billed: { cost_nanousd: step.cost_nanousd ?? 0, output_tokens: step.usage.output_tokens },
            },
          ]
        : [],
    ),
  );
  await writeSummaries(trx, decided);
  const counted = decided.map(({ run, decision }) => ({
    ...tallyOfMove(run, decision.run),
    ...tallyOfBill(decision.step),
    steps: decision.step.applies ? 1 : 0,
    tool_calls: decision.calls.length,
    ended_tool_calls: decision.calls.filter(({ state }) => state !== 'pending').length,
    // No call of an answer is in doubt yet.
    failed_tool_calls: decision.calls.filter(({ state }) => state === 'failed').length,
  }));
  const report = await settleMoves(trx, moves, counted, slot);
  await countFailedLines(trx, decided, slot);
  return report;
}

/** A run's part of a commit of tool results. */
export interface ToolResultsOfRun {
  readonly run: RunToDecide;
  readonly decision: ResultsDecision;
  /** Outputs of calls that are not stored yet. */
  readonly outputs?: readonly Pick<OutputOfCall, 'call_index' | 'output'>[];
}

/**
 * Applies the results and outputs of all calls of a chunk, or of the runs of `part` alone, which leave the chunk. The chunk is deleted
 * with its last run.
 * The caller holds the lease of the chunk and the locks of the runs and of the changed blocks.
 * Locks: chunk → runs → agents → blocks → conversations → batch tallies. Runs come first, unlike in
 * {@link commitDecisions}, since callers, cancels and deadlines move acting runs too; the two commits never hold the same run.
 */
export async function commitToolResults(
  trx: Tx,
  chunkId: string,
  results: readonly ToolResultsOfRun[],
  part: readonly string[] | null = null,
  slot = tallySlot(),
): Promise<CommitReport> {
  await sql`
    with over as (
      delete from run_chunk
       where id = ${chunkId}::uuid and (${part}::uuid[] is null or run_ids <@ ${part}::uuid[]))
    update run_chunk
       set run_ids = array(select u.id from unnest(run_ids) with ordinality as u(id, place)
                            where u.id <> all(${part}::uuid[]) order by u.place)
     where id = ${chunkId}::uuid and ${part}::uuid[] is not null and not run_ids <@ ${part}::uuid[]
  `.execute(trx);
  if (results.length === 0) return NOTHING_COMMITTED;
  await forceGenericPlan(trx);
  await writeCallOutputs(
    trx,
    results.flatMap(({ run, outputs = [] }) =>
      outputs.map((output) => ({ run_id: run.id, step_number: run.step_number, ...output })),
    ),
  );
  const endedCalls = await endToolCalls(
    trx,
    results.flatMap(({ run, decision }) => decision.calls.map((call) => ({ run, call }))),
  );
  await endAnsweredSteps(
    trx,
    results.map(({ run }) => run),
  );
  await writeMessages(
    trx,
    results.map(({ run, decision }) => messageRow(run, decision.step_number, decision.message)),
  );
  await writeBlockChanges(
    trx,
    results.flatMap(({ decision }) => decision.changes),
  );
  const moves = results.map(({ run, decision }) => ({
    run,
    move: decision.run,
    last_seq: decision.message.seq,
  }));
  await moveRuns(trx, moves);
  const counted = results.flatMap(({ run, decision }) =>
    decision.run.state === 'ready' ? [] : [tallyOfMove(run, decision.run)],
  );
  return settleMoves(trx, moves, [...endedCalls, ...counted], slot);
}

/**
 * Ends runs whose next step must not be sent. The caller holds their locks and has taken their steps out; they are in no
 * chunk.
 * Locks: runs → conversations → batch tallies.
 */
export async function commitRunsEnded(
  trx: Tx,
  ended: readonly { readonly run: RunToDecide; readonly move: StepDecision['run'] }[],
  slot = tallySlot(),
): Promise<CommitReport> {
  const moves = ended.map(({ run, move }) => ({ run, move, last_seq: run.last_seq }));
  await moveRuns(trx, moves);
  await noteFailures(trx, moves);
  const counted = moves.map(({ run, move }) => tallyOfMove(run, move));
  return settleMoves(trx, moves, counted, slot);
}

/** Passes the conversations of moved runs on and counts `counted` and the started runs. */
async function settleMoves(
  trx: Tx,
  moves: readonly RunMoved[],
  counted: readonly TallyChange[],
  slot: number,
): Promise<CommitReport> {
  const project = moves[0]?.run.project_id ?? '';
  const ready = moves.flatMap(({ run, move }) =>
    move.state === 'ready' ? [{ id: run.id, delay: move.delay_ms }] : [],
  );
  const acting = moves.filter(({ move }) => move.state === 'acting').map(({ run }) => run.id);
  await putReadyChunks(trx, project, ready);
  if (acting.length > 0) await putChunk(trx, { project, kind: 'tools', runIds: acting, delayMs: 0 });
  const ended = moves.filter(({ move }) => 'stop_reason' in move);
  const passed =
    ended.length > 0
      ? await passConversationsOn(
          trx,
          ended.map(({ run }) => run.conversation_id),
          ended.map(({ run }) => run.id),
        )
      : NONE_PASSED_ON;
  await addToTallies(trx, [...counted, ...talliesOfPassing(passed)], slot);
  return {
    ready: ready.length > 0 || passed.started.length > 0,
    tools: acting.length > 0,
    ended_batch_ids: [
      ...new Set([...ended.map(({ run }) => run), ...passed.cancelled].map((run) => run.batch_id)),
    ],
    ended_runs: ended.length,
  };
}

/**
 * Marks calls with side effects as begun before they run, so that they are in doubt after a crash. Returns the calls to
 * make, without calls of cancelled runs and batches. The caller holds the lease of the chunk.
 * Locks: the rows of the calls.
 */
export async function commitCallsBegun(
  trx: Tx,
  calls: readonly { readonly key: Pick<StepKey, 'run_id' | 'number'>; readonly call_index: number }[],
): Promise<readonly { readonly run_id: string; readonly call_index: number }[]> {
  if (calls.length === 0) return [];
  const { rows } = await sql<{ run_id: string; call_index: number }>`
    with d as materialized (
      select * from json_to_recordset(${JSON.stringify(
        calls.map(({ key, call_index }) => ({ r: key.run_id, n: key.number, x: call_index })),
      )}::json) as d(r uuid, n int, x int))
    update tool_call c set state = 'running', started_at = app_now(), attempts = least(c.attempts + 1, 32767)
      from d join run on run.id = d.r join batch b on b.id = run.batch_id
     where c.run_id = d.r and c.step_number = d.n and c.call_index = d.x and c.state in ('pending', 'running')
       and b.state not in ('cancelling', 'cancelled') and run.cancel_requested_at is null
    returning c.run_id, c.call_index
  `.execute(trx);
  return rows;
}
