import { ERROR_CATALOGUE, NightshiftError, toUsd, toWireId } from '@nightshift/agent-core';
import {
  commitScheduleDelayed,
  commitSchedulePaused,
  commitVisit,
  findSchedule,
  inTransaction,
  judgeError,
  lockDueSchedule,
  readDueScheduleIds,
  readMsToNextSchedule,
  readNow,
  readScheduleFacts,
  type ScheduleRow,
  type ScheduleVisit,
  type Tx,
} from '@nightshift/db';
import {
  insteadOfStart,
  planVisit,
  prepareBatch,
  signalsOfStored,
  storeTickBatch,
  type BatchRequest,
  type PreparedBatch,
  type StoredBatch,
} from '@nightshift/intake';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'fire-schedules';
/** Due schedules to choose from. */
const CANDIDATES = 100;
/** Wait of a schedule after an unexpected error. Unit: milliseconds. */
const FAILURE_DELAY_MS = 60_000;
/** Time after the due time of the next look, for the difference of two clocks. Unit: milliseconds. */
const LATE_MS = 10;

/** The dependencies of the flow. */
export type FireDeps = Pick<FlowDeps, 'db' | 'bell' | 'settings' | 'hooks'>;

/** The body of a schedule, made ready outside the transaction; or the reason why no batch can have it. */
type Preparation =
  | { readonly kind: 'prepared'; readonly batch: PreparedBatch }
  | { readonly kind: 'refused'; readonly error: NightshiftError };

interface Visited {
  readonly visit: ScheduleVisit;
  readonly batch: StoredBatch | null;
}

/**
 * Looks at one due schedule: stores the batch of its tick, the tick and the next due time in one transaction. So a tick has
 * at most one batch, whichever worker takes it.
 * It picks a due schedule at random, so that one crashing body does not block the others.
 */
export async function fireSchedules(deps: FireDeps): Promise<FlowReport> {
  const { db } = deps;
  const due = await readDueScheduleIds(db, CANDIDATES);
  const id = due[Math.floor(Math.random() * due.length)];
  if (id === undefined) {
    const ms = await readMsToNextSchedule(db);
    return { flow: FLOW, worked: false, ...(ms === null ? {} : { again_in_ms: Math.max(ms, 0) + LATE_MS }) };
  }
  const schedule_id = toWireId('schedule', id);
  try {
    const visited = await fire(deps, id);
    await deps.hooks?.('fire.after_commit');
    if (visited?.batch != null) await deps.bell.ring(signalsOfStored(visited.batch));
    return { flow: FLOW, worked: true, schedule_id, ...reportOf(visited) };
  } catch (error) {
    if (judgeError(error) !== 'poison') throw error;
    await inTransaction(db, (trx) => commitScheduleDelayed(trx, id, FAILURE_DELAY_MS));
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { flow: FLOW, worked: true, schedule_id, alarm: true, outcome: 'failed', error: message };
  }
}

function reportOf(visited: Visited | null): Omit<FlowReport, 'flow' | 'worked'> {
  if (visited === null) return { outcome: 'taken by another worker' };
  const { visit, batch } = visited;
  const { tick, missed, state } = visit;
  return {
    outcome: tick?.kind ?? 'looked',
    tick: tick?.due_at.toISOString(),
    reason: tick === null || tick.kind === 'start' ? undefined : tick.reason,
    batch_id: batch?.batch_id,
    missed: missed.length,
    state,
    warning: tick?.kind === 'refuse' || missed.length > 0,
  };
}

/** Looks at a schedule; null if it is no longer due or was changed. A refused batch leaves a refused tick. */
async function fire(deps: FireDeps, id: string): Promise<Visited | null> {
  const { db } = deps;
  const seen = await findSchedule(db, id);
  if (seen === null) return null;
  const plan = planVisit(seen, await readNow(db), await readScheduleFacts(db, seen));
  const preparation = plan.tick?.kind === 'start' ? await prepare(seen.body) : null;
  try {
    return await inTransaction(db, (trx) => visitDue(deps, trx, seen, preparation));
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return inTransaction(db, (trx) => visitDue(deps, trx, seen, { kind: 'refused', error }));
  }
}

async function prepare(body: unknown): Promise<Preparation> {
  try {
    return { kind: 'prepared', batch: await prepareBatch(body as BatchRequest, () => undefined) };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { kind: 'refused', error };
  }
}

/** Tells whether an error is about the batch, and a caller would have got it as an answer. */
function isRefusal(error: unknown): error is NightshiftError {
  if (!(error instanceof NightshiftError)) return false;
  const { status } = ERROR_CATALOGUE[error.code];
  return status !== null && status < 500;
}

async function visitDue(
  deps: FireDeps,
  trx: Tx,
  seen: ScheduleRow,
  preparation: Preparation | null,
): Promise<Visited | null> {
  const schedule = await lockDueSchedule(trx, seen.id);
  if (schedule?.revision !== seen.revision) return null;
  const now = await readNow(trx);
  const plan = planVisit(schedule, now, await readScheduleFacts(trx, schedule));
  const visited = await carryOut(deps, trx, schedule, { plan, now, preparation });
  // Its last batch has ended since, and the body is not prepared: the next look does it.
  if (visited === null) return null;
  const { visit, batch } = visited;
  if (visit.state === 'paused' && schedule.state === 'active')
    await commitSchedulePaused(trx, schedule.id, visit.state_reason ?? '');
  else await commitVisit(trx, schedule, visit, batch?.batch_id ?? null);
  await deps.hooks?.('fire.before_commit');
  return visited;
}

interface Planned {
  readonly plan: ScheduleVisit;
  readonly now: Date;
  readonly preparation: Preparation | null;
}

/** Stores the batch of a planned start; null if it is not prepared. */
async function carryOut(
  { settings }: FireDeps,
  trx: Tx,
  schedule: ScheduleRow,
  { plan, now, preparation }: Planned,
): Promise<Visited | null> {
  if (plan.tick?.kind !== 'start') return { visit: plan, batch: null };
  if (preparation === null) return null;
  if (preparation.kind === 'refused') {
    const { code, message } = preparation.error;
    const visit = insteadOfStart(plan, 'refuse', code, message);
    // Due at once, so that the next look counts the failed ticks.
    return { visit: visit.state === 'active' ? { ...visit, next_due_at: now } : visit, batch: null };
  }
  const settled = { due_at: plan.tick.due_at, now, prices: settings.prices };
  const batch = await storeTickBatch(trx, schedule, preparation.batch, settled);
  if (batch !== null) return { visit: plan, batch };
  const cap = toUsd(schedule.max_cost_nanousd_per_month);
  const message = `Nothing is left of the $${cap ?? ''} of this month.`;
  return { visit: insteadOfStart(plan, 'skip', 'no_budget', message), batch: null };
}
