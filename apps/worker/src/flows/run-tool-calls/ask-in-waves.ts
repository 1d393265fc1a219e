import { isError, NightshiftError } from '@nightshift/agent-core';
import {
  commitCallResults,
  commitCallsBegun,
  holdLease,
  inTransaction,
  judgeError,
  type CallResult,
} from '@nightshift/db';
import type { HeldLease } from '../../leases/keeper.ts';
import type { FlowDeps, ToolReply } from '../../flow-parts/deps.ts';
import { isJournalled, NOT_MADE, requestOf, resultToKeep, type Call } from '../../flow-parts/calls/call.ts';

/** Journalled calls in progress at a time: the maximum in doubt after a crash. */
export const WAVE_CALLS = 64;

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
 * Makes calls and collects their replies.
 * Calls with side effects go in waves: each wave is journalled just before it is sent, after the replies of the last wave
 * were stored. Other calls go with the first wave. Ends early when the lease's signal fires; the caller then stores the
 * collected replies.
 */
export async function askInWaves(
  deps: FlowDeps,
  lease: HeldLease,
  open: readonly Call[],
  collected: CallReplies,
): Promise<void> {
  const journalled = open.filter(isJournalled);
  for (let from = 0; from === 0 || from < journalled.length; from += WAVE_CALLS) {
    if (lease.signal.aborted) return;
    const wave = journalled.slice(from, from + WAVE_CALLS);
    if (from > 0) await keepReplies(deps, lease, open, collected);
    const begun = await begin(deps, lease, wave, collected);
    const asked =
      from === 0
        ? open.filter((call) => begun.has(call) || !isJournalled(call))
        : wave.filter((call) => begun.has(call));
    await ask(deps, asked, lease.signal, collected);
  }
}

/** Journals a wave and returns the calls to make. Calls of a batch cancelled meanwhile are answered here. */
async function begin(
  { db, hooks }: FlowDeps,
  lease: HeldLease,
  wave: readonly Call[],
  collected: CallReplies,
): Promise<ReadonlySet<Call>> {
  if (wave.length === 0) return new Set();
  const rows = await inTransaction(db, async (trx) => {
    await holdLease(trx, lease);
    return commitCallsBegun(
      trx,
      wave.map(({ run, planned }) => ({
        key: { run_id: run.run_id, number: run.step_number },
        call_index: planned.index,
      })),
    );
  });
  const begunRows = new Set(rows.map(({ run_id, call_index }) => `${run_id}/${call_index}`));
  const begun = new Set(wave.filter(({ run, planned }) => begunRows.has(`${run.run_id}/${planned.index}`)));
  for (const call of wave) {
    if (!begun.has(call)) collected.replies.set(call.key, notMade(call.key));
  }
  await hooks?.('tools.after_journal');
  return begun;
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
    const result = reply === undefined ? null : resultToKeep(call, reply, cutOff);
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

/** Waits for a time, or until the signal fires. Uses the global timer, which the simulation replaces. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
  });
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
    return [];
  } catch (error) {
    if (judgeError(error) !== 'poison') throw error;
    if (due.length === 1) return due.map(({ call }) => call);
    const middle = Math.ceil(due.length / 2);
    const first = await keepInParts(deps, lease, due.slice(0, middle), collected);
    return [...first, ...(await keepInParts(deps, lease, due.slice(middle), collected))];
  }
}

async function ask(
  deps: FlowDeps,
  calls: readonly Call[],
  signal: AbortSignal,
  { replies }: CallReplies,
): Promise<void> {
  if (calls.length === 0) return;
  try {
    for (const reply of await deps.tools.runCalls(calls.map(requestOf), { signal })) {
      replies.set(reply.call_id, reply);
    }
  } catch (cause) {
    // Not a fault of a call, which would be a reply: the chunk waits for a tool host.
    const { outcomes = [] } = cause as { readonly outcomes?: readonly ToolReply[] };
    for (const reply of outcomes) replies.set(reply.call_id, reply);
    throw new NightshiftError('tool_host_unavailable', 'The tool host does not take calls.', { cause });
  }
  for (const { key, planned } of calls) {
    const reply = replies.get(key) ?? unanswered(key);
    replies.set(key, reply);
    deps.quickTools.observe(planned.tool_name, reply);
  }
}

function notMade(key: string): ToolReply {
  return { call_id: key, status: 'failed', result: NOT_MADE, duration_ms: 0, started: false };
}

/** Stands for a reply that never came, a fault of the tool host. The call may have happened. */
function unanswered(key: string): ToolReply {
  const result = 'The tool host did not answer this call.';
  return { call_id: key, status: 'crashed', result, duration_ms: 0, started: true };
}
