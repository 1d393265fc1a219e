import { isError } from '@nightshift/agent-core';
import { commitCallResults, holdLease, inTransaction, judgeError, type CallResult } from '@nightshift/db';
import type { HeldLease } from '../../leases/keeper.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import { resultToKeep, type Call } from '../../flow-parts/calls/call.ts';
import { pause } from './pause.ts';
import type { ToolReply } from '../../tools/runner.ts';

/**
 * First and maximum pause before unsaved replies are written again, and the total time of the retries. Unit: milliseconds.
 */
const KEEP_PAUSE_MS = 100;
const KEEP_PAUSE_MS_MAX = 2_000;
const KEEP_FOR_MS = 30_000;

/** Replies of this process by call key, and the keys of replies already on their rows. */
export interface CallReplies {
  readonly replies: Map<string, ToolReply>;
  readonly kept: Set<string>;
}

/**
 * Stores collected replies on the rows of their calls, under the lease's epoch.
 * Works after the signal fired too, as long as no other worker took the chunk over. `cutOff`: unfinished calls are left to
 * the next worker. Returns the calls whose result cannot be stored.
 */
export async function keepReplies(
  deps: FlowDeps,
  lease: HeldLease,
  calls: readonly Call[],
  collected: CallReplies,
  cutOff = lease.signal.aborted,
): Promise<readonly Call[]> {
  const due = calls.flatMap((call): readonly Kept[] => {
    const reply = collected.kept.has(call.key) ? undefined : collected.replies.get(call.key);
    // A refused call leaves the journal at once: the worker that takes the chunk over must not find it in doubt.
    const result =
      reply === undefined ? null : resultToKeep(call, reply, cutOff || reply.unavailable === true);
    return result === null ? [] : [{ call, result }];
  });
  return keepInParts(deps, lease, due, collected);
}

/**
 * Stores replies like {@link keepReplies}, for a worker that gives up the chunk after a failure.
 * Unfinished calls are left to the next worker. While the database is away it retries for at most half a minute, even with
 * an expired lease: the database decides the owner. At shutdown it tries once more.
 */
export async function keepBeforeLeaving(
  deps: FlowDeps,
  lease: HeldLease,
  calls: readonly Call[],
  collected: CallReplies,
): Promise<void> {
  const begunAt = performance.now();
  for (let pauseMs = KEEP_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, KEEP_PAUSE_MS_MAX)) {
    const isLast = deps.leases.lettingGo.aborted || performance.now() - begunAt >= KEEP_FOR_MS;
    try {
      await keepReplies(deps, lease, calls, collected, true);
      return;
    } catch (error) {
      if (isLast || judgeError(error) === 'poison' || isError(error, 'fenced')) throw error;
    }
    await pause(pauseMs, deps.leases.lettingGo);
  }
}

interface Kept {
  readonly call: Call;
  readonly result: CallResult;
}

async function keepInParts(
  deps: FlowDeps,
  lease: HeldLease,
  due: readonly Kept[],
  collected: CallReplies,
): Promise<readonly Call[]> {
  if (due.length === 0) return [];
  try {
    await inTransaction(deps.db, async (trx) => {
      await holdLease(trx, lease);
      await commitCallResults(
        trx,
        due.map(({ result }) => result),
      );
    });
    for (const { call } of due) collected.kept.add(call.key);
    await deps.hooks?.('tools.after_keep');
    return [];
  } catch (error) {
    if (judgeError(error) !== 'poison') throw error;
    if (due.length === 1) return due.map(({ call }) => call);
    const middle = Math.ceil(due.length / 2);
    const first = await keepInParts(deps, lease, due.slice(0, middle), collected);
    return [...first, ...(await keepInParts(deps, lease, due.slice(middle), collected))];
  }
}
