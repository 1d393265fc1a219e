import { createHash } from 'node:crypto';
import type { ScheduleFacts, ScheduleRow, ScheduleVisit, TickDecision } from '@nightshift/db';
import { nextTick, ticksUntil } from './rule.ts';

/** Maximum missed ticks of one transaction: a minute rule after weeks of outage takes many. */
const TICKS_PER_VISIT = 500;

/** The part of a schedule that its moments depend on. */
type Timed = Pick<ScheduleRow, 'id' | 'cron' | 'time_zone' | 'jitter_s' | 'ends_at'>;

/** Returns when a worker looks at a tick: its moment and a delay that depends on the schedule and the moment alone. */
export function withJitter(schedule: Pick<Timed, 'id' | 'jitter_s'>, tick: Date): Date {
  if (schedule.jitter_s === 0) return tick;
  const hash = createHash('sha256').update(`${schedule.id} ${tick.toISOString()}`).digest();
  return new Date(tick.getTime() + (hash.readUInt32BE(0) % (schedule.jitter_s * 1000 + 1)));
}

/** The columns of a schedule that say when it runs next. */
type NextRun = Pick<ScheduleVisit, 'state' | 'state_reason' | 'tick_due_at' | 'next_due_at'>;

/** Returns the state of an active schedule after a moment: due at its next one, or ended. */
export function afterTick(schedule: Timed, tick: Date): NextRun {
  const next = nextTick(schedule, tick);
  if (next === null) return ended('The rule has no further moment.');
  if (schedule.ends_at !== null && next > schedule.ends_at) return ended('Its end, `ends_at`, has come.');
  return { state: 'active', state_reason: null, tick_due_at: next, next_due_at: withJitter(schedule, next) };
}

function ended(state_reason: string): NextRun {
  return { state: 'ended', state_reason, tick_due_at: null, next_due_at: null };
}

/**
 * Plans one look at a due schedule.
 * - Too many failed ticks pause it.
 * - A waiting tick starts when no batch of the schedule is open; a due tick is then left to the next look.
 * - Of the due ticks the latest runs, if it is within the catch-up window. The others are missed.
 */
export function planVisit(schedule: ScheduleRow, now: Date, facts: ScheduleFacts): ScheduleVisit {
  const { failures_max } = schedule;
  if (schedule.state === 'active' && failures_max !== null && facts.failures >= failures_max) {
    const state_reason = `${failures_max} failed ticks in a row. See its ticks, then resume it.`;
    return { missed: [], tick: null, state: 'paused', state_reason, tick_due_at: null, next_due_at: null };
  }
  const still = stay(schedule);
  if (facts.waiting !== null && !facts.has_open_batch) {
    return { missed: [], tick: { ...facts.waiting, kind: 'start', was_waiting: true }, ...still };
  }
  if (schedule.tick_due_at === null) return { missed: [], tick: null, ...still };
  const due = dueTicks(schedule, schedule.tick_due_at, now);
  const last = due.at(-1);
  if (last === undefined) return { missed: [], tick: null, ...still };
  const next = afterTick(schedule, last);
  const isLatest = next.next_due_at === null || next.next_due_at > now;
  const latestStart = withJitter(schedule, last).getTime() + schedule.catch_up_window_s * 1000;
  if (!isLatest || latestStart < now.getTime()) return { missed: due, tick: null, ...next };
  return { missed: due.slice(0, -1), tick: decide(schedule, last, facts), ...next };
}

/** Returns the ticks to look at by now, in order, at most {@link TICKS_PER_VISIT}. */
function dueTicks(schedule: ScheduleRow, first: Date, now: Date): readonly Date[] {
  const last = schedule.ends_at !== null && schedule.ends_at < now ? schedule.ends_at : now;
  return ticksUntil(schedule, first, last, TICKS_PER_VISIT).filter(
    (tick) => withJitter(schedule, tick) <= now,
  );
}

function decide(schedule: ScheduleRow, due_at: Date, facts: ScheduleFacts): TickDecision {
  const tick = { due_at, is_manual: false, was_waiting: false };
  if (!facts.has_open_batch) return { ...tick, kind: 'start' };
  if (schedule.overlap === 'queue' && facts.waiting === null) return waiting(tick);
  const message =
    facts.waiting === null
      ? 'The last batch has not ended.'
      : 'Another tick waits for the end of the last batch.';
  return { ...tick, kind: 'skip', reason: 'overlap', message };
}

/** Makes a tick wait for the end of the open batch. */
export function waiting(tick: Pick<TickDecision, 'due_at' | 'is_manual' | 'was_waiting'>): TickDecision {
  return { ...tick, kind: 'wait', reason: 'overlap', message: 'Waits for the end of the last batch.' };
}

/** Returns the times of a schedule that no tick moves. */
function stay(schedule: ScheduleRow): NextRun {
  const { state, state_reason, tick_due_at } = schedule;
  const next_due_at = tick_due_at === null ? null : withJitter(schedule, tick_due_at);
  return { state, state_reason, tick_due_at, next_due_at };
}

/** Turns a planned start into a skip or a refusal, with its reason. */
export function insteadOfStart(
  visit: ScheduleVisit,
  kind: 'skip' | 'refuse',
  reason: string,
  message: string,
): ScheduleVisit {
  const { tick } = visit;
  if (tick?.kind !== 'start') return visit;
  const { due_at, is_manual, was_waiting } = tick;
  return { ...visit, tick: { due_at, is_manual, was_waiting, kind, reason, message } };
}
