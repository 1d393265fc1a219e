import { commitCallsBegun, holdLease, inTransaction } from '@nightshift/db';
import { isJournalled, isOpen, NOT_MADE, requestOf, type Call } from '../../flow-parts/calls/call.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import type { HeldLease } from '../../leases/keeper.ts';
import type { ChunkPlaces, WantedCall } from '../../tools/places.ts';
import { failed, type ToolReply } from '../../tools/runner.ts';
import { readCalls } from './read-calls.ts';
import { createWaker, type Waker } from '../../flow-parts/waker.ts';

/** Age at which a waiting call is read again before it starts; while limits of tools keep all from it. Unit: milliseconds. */
const STALE_AFTER_MS = 1_000;
const GATED_STALE_AFTER_MS = 5_000;

/** The calls of a chunk, and their replies. */
export interface ChunkCalls {
  /** Planned calls by run. */
  readonly byRun: Map<string, readonly Call[]>;
  /** Calls that wait for a place, in order. */
  waiting: readonly PlacedCall[];
  /** Keys of the calls under way. */
  readonly underWay: Set<string>;
  /** Started calls by key, until their run is committed. */
  readonly started: Map<string, PlacedCall>;
  readonly replies: Map<string, ToolReply>;
  /** Keys of replies already on their rows. */
  readonly kept: Set<string>;
  /** Moment at which the oldest reply arrived that is not stored yet. */
  repliedMs: number | undefined;
  /** Moment from which a waiting call is read again before it starts: its batch may be cancelled meanwhile. */
  staleMs: number;
  /** Replies of hosts that take no calls, by pool. */
  readonly refusals: Map<string, string>;
  readonly places: ChunkPlaces;
  /** Rings at each reply, when a place becomes free, and when the lease is lost. */
  readonly waker: Waker;
}

/** A call that wants or has a place. */
export interface PlacedCall extends WantedCall {
  readonly call: Call;
}

/** Returns the calls of a chunk before any has started. */
export function openCalls({ tools }: FlowDeps, lease: HeldLease, planned: readonly Call[]): ChunkCalls {
  const waker = createWaker();
  lease.signal.addEventListener('abort', () => waker.wake());
  const byRun = Map.groupBy(planned, (call) => call.run.run_id);
  const waiting = [...byRun].flatMap(([run_id, own]) => {
    const open = own.filter(isOpen);
    const run_chars = open.reduce((sum, { planned: { tool } }) => sum + (tool?.return_char_limit ?? 0), 0);
    return open.map((call): PlacedCall => {
      const { tool_name, tool } = call.planned;
      const pool = tools.poolOf(tool?.kind ?? 'rejected', tool_name);
      return { call, pool, tool_name, run_id, run_chars, is_once: tool?.side_effects === 'once' };
    });
  });
  return {
    byRun,
    waiting,
    underWay: new Set(),
    started: new Map(),
    replies: new Map(),
    kept: new Set(),
    repliedMs: undefined,
    staleMs: performance.now() + STALE_AFTER_MS,
    refusals: new Map(),
    places: tools.places.open(() => waker.wake()),
    waker,
  };
}

/**
 * Starts the waiting calls that find a place.
 * Calls with side effects are journalled just before. Calls of a batch that was cancelled meanwhile are answered here.
 */
export async function startCalls(deps: FlowDeps, lease: HeldLease, calls: ChunkCalls): Promise<void> {
  if (startableCalls(deps, calls).length === 0) return;
  if (performance.now() >= calls.staleMs) await dropSettled(deps, calls);
  await deps.grantKeeper.refresh();
  const wanted = calls.places.take(startableCalls(deps, calls));
  deps.grantKeeper.ask();
  if (wanted.length === 0) return;
  const leaving = new Set(wanted);
  calls.waiting = calls.waiting.filter((call) => !leaving.has(call));
  const begun = await begin(
    deps,
    lease,
    wanted.filter(({ call }) => isJournalled(call)),
  );
  for (const placed of wanted) {
    if (isJournalled(placed.call) && !begun.has(placed)) {
      takeReply(calls, placed, failed({ call_id: placed.call.key }, NOT_MADE));
      calls.places.stored(placed);
    } else start(deps, calls, placed, lease.signal);
  }
}

function start(deps: FlowDeps, calls: ChunkCalls, placed: PlacedCall, signal: AbortSignal): void {
  const { call } = placed;
  const request = requestOf(call);
  calls.underWay.add(call.key);
  calls.started.set(call.key, placed);
  void deps.tools.run(request, { signal }).then((reply) => {
    calls.underWay.delete(call.key);
    // Other kinds never go the quick way.
    if (request.kind === 'module') deps.quickTools.observe(request.tool_name, reply);
    const isTaken = reply.unavailable !== true;
    deps.tools.rests.record(placed.pool.name, isTaken);
    if (!isTaken) calls.refusals.set(placed.pool.name, reply.result);
    takeReply(calls, placed, reply);
  });
}

function takeReply(calls: ChunkCalls, placed: PlacedCall, reply: ToolReply): void {
  calls.replies.set(placed.call.key, reply);
  calls.repliedMs ??= performance.now();
  calls.places.free(placed);
  calls.waker.wake();
}

/** Returns the waiting calls whose host takes calls. */
export function startableCalls(
  { tools: { rests } }: FlowDeps,
  { waiting }: ChunkCalls,
): readonly PlacedCall[] {
  return waiting.filter(({ pool }) => rests.restMs(pool.name) === 0);
}

/** Returns the runs that wait for a host that takes no calls, and for no other call; and the rest of the host. */
export function strandedRuns(
  { tools: { rests } }: FlowDeps,
  { started, waiting, underWay, replies }: ChunkCalls,
): { readonly runs: ReadonlySet<string>; readonly rest_ms: number } {
  const refused = [...started.values()].filter(({ call: { key } }) => replies.get(key)?.unavailable === true);
  const resting = waiting.filter(({ pool }) => rests.restMs(pool.name) > 0);
  const runs = new Set([...refused, ...resting].map(({ run_id }) => run_id));
  const kept = new Set(resting);
  for (const placed of waiting) if (!kept.has(placed)) runs.delete(placed.run_id);
  for (const key of underWay) runs.delete(started.get(key)?.run_id ?? '');
  return {
    runs,
    rest_ms: Math.max(0, ...[...refused, ...resting].map(({ pool }) => rests.restMs(pool.name))),
  };
}

/** Reads the waiting calls again, and drops those whose outcome is known now: their batch was cancelled meanwhile. */
async function dropSettled(deps: FlowDeps, calls: ChunkCalls): Promise<void> {
  const runIds = new Set(calls.waiting.map(({ run_id }) => run_id));
  const fresh = new Map((await readCalls(deps, [...runIds])).map((call) => [call.key, call]));
  calls.staleMs = performance.now() + (calls.places.waitsForGrants() ? GATED_STALE_AFTER_MS : STALE_AFTER_MS);
  calls.waiting = calls.waiting.filter((placed) => {
    const now = fresh.get(placed.call.key);
    if (now?.known === null) return true;
    const known = now?.known ?? { outcome: { ok: false, result: NOT_MADE }, state: 'failed' as const };
    const own = calls.byRun.get(placed.run_id) ?? [];
    calls.byRun.set(
      placed.run_id,
      own.map((call) => (call.key === placed.call.key ? { ...call, known } : call)),
    );
    calls.repliedMs ??= performance.now();
    return false;
  });
}

/** Journals calls and returns those to make: no calls of a batch that was cancelled meanwhile. */
async function begin(
  { db, hooks }: FlowDeps,
  lease: HeldLease,
  placed: readonly PlacedCall[],
): Promise<ReadonlySet<PlacedCall>> {
  if (placed.length === 0) return new Set();
  const rows = await inTransaction(db, async (trx) => {
    await holdLease(trx, lease);
    return commitCallsBegun(
      trx,
      placed.map(({ call: { run, planned } }) => ({
        key: { run_id: run.run_id, number: run.step_number },
        call_index: planned.index,
      })),
    );
  });
  const begun = new Set(rows.map(({ run_id, call_index }) => `${run_id}/${call_index}`));
  await hooks?.('tools.after_journal');
  return new Set(placed.filter(({ call: { run, planned } }) => begun.has(`${run.run_id}/${planned.index}`)));
}

/** Whether the outcome of each call of a run is known, so that the run may be committed. */
export function hasEnded({ byRun, replies }: ChunkCalls, runId: string): boolean {
  return (byRun.get(runId) ?? []).every((call) => {
    if (!isOpen(call)) return true;
    const reply = replies.get(call.key);
    return reply !== undefined && reply.unavailable !== true;
  });
}

/** Returns the calls that this worker has started, of runs that are not committed. */
export function startedCalls({ started }: ChunkCalls): readonly Call[] {
  return [...started.values()].map(({ call }) => call);
}

/** Drops the calls of a committed run. */
export function forgetReplies(calls: ChunkCalls, runId: string): void {
  for (const { key } of calls.byRun.get(runId) ?? []) {
    calls.started.delete(key);
    calls.replies.delete(key);
  }
}

/**
 * Frees what an ended run holds: results that are committed, or cannot be. Results that cannot be stored must not keep other
 * calls from starting.
 */
export function freePlaces(calls: ChunkCalls, runId: string): void {
  for (const { key } of calls.byRun.get(runId) ?? []) {
    const placed = calls.started.get(key);
    if (placed !== undefined) calls.places.stored(placed);
  }
  calls.places.committed(runId);
}

/** Resolves when no call is under way. */
export async function untilQuiet(calls: ChunkCalls): Promise<void> {
  while (calls.underWay.size > 0) await calls.waker.wait();
}
