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

/** Journalled calls that are under way at a time: so many are in doubt after a crash, at most. */
export const WAVE_CALLS = 64;

/** Milliseconds before replies that could not be kept are tried again, at first and at most, and for how long they are. */
const KEEP_PAUSE_MS = 100;
const KEEP_PAUSE_MS_MAX = 2_000;
const KEEP_FOR_MS = 30_000;

/** The replies that this process has, by key of the call, and which of them are on the rows of their calls. */
export interface CallReplies {
  readonly replies: Map<string, ToolReply>;
  readonly kept: Set<string>;
}

/**
 * Has calls made and takes the replies into the hand. Calls with side effects go in waves: each is journalled just
 * before it is asked for, after the replies of the wave before it were kept. Calls without go with the first. Ends
 * early when the lease's signal fires; what is in hand then is for the caller to keep.
 */
export async function askInWaves(
  deps: FlowDeps,
  lease: HeldLease,
  open: readonly Call[],
  hand: CallReplies,
): Promise<void> {
  const journalled = open.filter(isJournalled);
  for (let from = 0; from === 0 || from < journalled.length; from += WAVE_CALLS) {
    if (lease.signal.aborted) return;
    const wave = journalled.slice(from, from + WAVE_CALLS);
    if (from > 0) await keepReplies(deps, lease, open, hand);
    const begun = await begin(deps, lease, wave, hand);
    const asked =
      from === 0
        ? open.filter((call) => begun.has(call) || !isJournalled(call))
        : wave.filter((call) => begun.has(call));
    await ask(deps, asked, lease.signal, hand);
  }
}

/** Journals a wave and returns the calls to be made. Those of a batch that was cancelled meanwhile are answered here. */
async function begin(
  { db, hooks }: FlowDeps,
  lease: HeldLease,
  wave: readonly Call[],
  hand: CallReplies,
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
    if (!begun.has(call)) hand.replies.set(call.key, notMade(call.key));
  }
  await hooks?.('tools.after_journal');
  return begun;
}

/**
 * Writes the replies in hand to the rows of their calls, under the epoch of the lease: once the signal has fired, too,
 * as long as nobody has taken the chunk over. `cutOff`: the calls that came to no end are left to whoever takes the chunk
 * next. Returns the calls whose result cannot be stored.
 */
export async function keepReplies(
  deps: FlowDeps,
  lease: HeldLease,
  calls: readonly Call[],
  hand: CallReplies,
  cutOff = lease.signal.aborted,
): Promise<readonly Call[]> {
  const due = calls.flatMap((call): readonly Kept[] => {
    const reply = hand.kept.has(call.key) ? undefined : hand.replies.get(call.key);
    const result = reply === undefined ? null : resultToKeep(call, reply, cutOff);
    return result === null ? [] : [{ call, result }];
  });
  return keepInParts(deps, lease, due, hand);
}

/**
 * As {@link keepReplies}, by a worker that has to let go of the chunk because something failed: the calls that came to no end
 * are left to the next one. While the database is away it is tried again, for half a minute at most, also when the lease is no
 * longer trusted for that: the database says whose it is. Once the worker lets go of everything it is tried one last time.
 */
export async function keepBeforeLeaving(
  deps: FlowDeps,
  lease: HeldLease,
  calls: readonly Call[],
  hand: CallReplies,
): Promise<void> {
  const begunAt = performance.now();
  for (let pauseMs = KEEP_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, KEEP_PAUSE_MS_MAX)) {
    const isLast = deps.leases.lettingGo.aborted || performance.now() - begunAt >= KEEP_FOR_MS;
    try {
      await keepReplies(deps, lease, calls, hand, true);
      return;
    } catch (error) {
      if (isLast || judgeError(error) === 'poison' || isError(error, 'fenced')) throw error;
    }
    await pause(pauseMs, deps.leases.lettingGo);
  }
}

/** Waits for so long, or until the signal fires; by the global timer, which is the one that simulated workers are lent. */
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
  hand: CallReplies,
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
    for (const { call } of due) hand.kept.add(call.key);
    return [];
  } catch (error) {
    if (judgeError(error) !== 'poison') throw error;
    if (due.length === 1) return due.map(({ call }) => call);
    const middle = Math.ceil(due.length / 2);
    const first = await keepInParts(deps, lease, due.slice(0, middle), hand);
    return [...first, ...(await keepInParts(deps, lease, due.slice(middle), hand))];
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
    // No fault of a call, which would be a reply: the chunk waits until there is a tool host again.
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

/** Stands for a reply that never came, which no tool host should do. The call may have happened. */
function unanswered(key: string): ToolReply {
  const result = 'The tool host did not answer this call.';
  return { call_id: key, status: 'crashed', result, duration_ms: 0, started: true };
}
