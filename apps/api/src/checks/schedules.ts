import { toUsd, toWireId } from '@nightshift/agent-core';
import {
  countSelectedAgents,
  readGrowth,
  readLastCosts,
  readProviderKeys,
  readScheduleSpending,
  readUpcomingSchedules,
  type LastCosts,
  type ProviderKey,
  type Spending,
  type UpcomingSchedule,
} from '@nightshift/db';
import { monthOf, ticksUntil, toSelection } from '@nightshift/intake';
import type { DetailsOf } from '../schemas/checks.ts';
import { countOf, judge, sizeOf, timeOf, type CheckFunction, type Scene } from './judged.ts';

const SCHEDULES_MAX = 100;
const TICKS_MAX = 100;
const COSTS_SHOWN = 3;
const AGENTS_MAX = 100_000;
const NANO = 1_000_000_000;
const DAY_MS = 86_400_000;

type Upcoming = DetailsOf<'schedules'>['schedules'][number];

/** Checks what the ticks up to a time will meet: agents, caps, paused keys, room on the disk. */
export const checkSchedules: CheckFunction<'schedules'> = async (scene) => {
  const { until } = scene;
  const facts = await readFacts(scene);
  const counts = await countAgents(scene, facts.schedules);
  const schedules = facts.schedules.map((schedule) =>
    toUpcoming(schedule, {
      until,
      agents: counts.get(schedule.id) ?? null,
      last: facts.costs.get(schedule.id),
      spending: facts.spending.get(schedule.id),
      paused: facts.keys,
    }),
  );
  const details = { until: until.toISOString(), schedules, is_cut: facts.is_cut };
  const troubled = schedules.filter(({ problems }) => problems.length > 0);
  const [first] = troubled;
  const more =
    troubled.length > 1 ? ` ${countOf(troubled.length - 1, 'other schedule')} will meet problems too.` : '';
  const disk = await fullDisk(scene, facts.growth);
  const due = `${countOf(schedules.length, 'schedule')}${facts.is_cut ? ' or more' : ''}`;
  return judge<'schedules'>(details, `${due} due until ${timeOf(until)}, and nothing is in the way.`, [
    schedules.length > 0 && disk !== null && ['failing', disk, 'Free space before then.'],
    first !== undefined && [
      'warning',
      `The next tick of "${first.name}", ${timeOf(new Date(first.next_tick))}: ${first.problems[0] ?? ''}.${more}`,
      'Change the schedule, its agents or its caps, or mend the key: nightshift doctor --at lists every schedule.',
    ],
  ]);
};

function readFacts({ read, context: { projectId }, until }: Scene) {
  return read(async (db) => {
    const found = await readUpcomingSchedules(db, projectId, until, SCHEDULES_MAX + 1);
    const schedules = found.slice(0, SCHEDULES_MAX);
    const ids = schedules.map(({ id }) => id);
    const months = schedules
      .filter(({ max_cost_nanousd_per_month: cap }) => cap !== null)
      .map(({ id, time_zone, tick_due_at }) => ({ id, ...monthOf(time_zone, tick_due_at) }));
    return {
      schedules,
      is_cut: found.length > schedules.length,
      costs: await readLastCosts(db, ids, COSTS_SHOWN),
      spending: await readScheduleSpending(db, months),
      keys: await readProviderKeys(db),
      growth: await readGrowth(db, projectId),
    };
  });
}

/** Counts the agents of each tick; a count that takes too long is left out. */
async function countAgents(
  { read, context: { projectId } }: Scene,
  schedules: readonly UpcomingSchedule[],
): Promise<ReadonlyMap<string, number>> {
  const fleets = schedules.filter(({ requests, agents }) => requests === null && agents !== null);
  const selections = fleets.map(({ agents }) => toSelection(agents as Parameters<typeof toSelection>[0]));
  const counts = await read((db) => countSelectedAgents(db, projectId, selections, AGENTS_MAX)).catch(
    () => [],
  );
  const ofRequests = schedules.flatMap(({ id, requests }) =>
    requests === null ? [] : [[id, requests] as const],
  );
  const ofFleets = counts.map((count, place) => [fleets[place]?.id ?? '', count] as const);
  return new Map([...ofRequests, ...ofFleets]);
}

interface TickFacts {
  readonly until: Date;
  readonly agents: number | null;
  readonly last: LastCosts | undefined;
  readonly spending: Spending | undefined;
  readonly paused: readonly ProviderKey[];
}

function toUpcoming(schedule: UpcomingSchedule, facts: TickFacts): Upcoming {
  const { until, agents, last, spending } = facts;
  const { id, name, tick_due_at, max_cost_usd, max_cost_nanousd_per_month: month } = schedule;
  const cap = max_cost_usd === null ? null : Math.round(max_cost_usd * NANO);
  // An open batch without a cap may use the whole month.
  const committed = spending === undefined ? 0 : spending.committed_nanousd;
  const left = month === null ? null : Math.max(0, committed === null ? 0 : month - committed);
  const last_tick = schedule.ends_at !== null && schedule.ends_at < until ? schedule.ends_at : until;
  return {
    schedule_id: toWireId('schedule', id),
    name,
    next_tick: tick_due_at.toISOString(),
    ticks: ticksUntil(schedule, tick_due_at, last_tick, TICKS_MAX).length,
    agents,
    open_batch: last?.has_open_batch ?? false,
    max_cost_usd: toUsd(cap),
    left_usd: toUsd(left),
    last_costs_usd: (last?.costs_nanousd ?? []).map((cost) => toUsd(cost)),
    problems: problemsOf(schedule, facts, cap, left),
  };
}

function problemsOf(
  schedule: UpcomingSchedule,
  { agents, last, paused }: TickFacts,
  cap: number | null,
  left: number | null,
): string[] {
  const dearest = Math.max(0, ...(last?.costs_nanousd ?? []));
  const key = paused.find(
    ({ pause_reason, paused_until }) =>
      pause_reason !== null && (paused_until === null || paused_until > schedule.tick_due_at),
  );
  const overlap = schedule.overlap === 'skip' ? 'the tick is skipped' : 'the tick waits';
  return [
    key !== undefined && `sending under the key ${key.name} is paused: ${key.pause_reason ?? ''}`,
    left !== null &&
      left < Math.max(1, dearest) &&
      `${usdOf(left)} of the month's cap are left, and a recent batch cost ${usdOf(dearest)}`,
    cap !== null && cap < dearest && `its cap is ${usdOf(cap)}, and a recent batch cost ${usdOf(dearest)}`,
    last?.has_open_batch === true && `its last batch has not ended; until it ends, ${overlap}`,
    agents === 0 && !schedule.allow_empty && 'it matches no agent, so the tick is refused',
  ].filter((problem) => problem !== false);
}

function usdOf(nanousd: number): string {
  return `$${toUsd(nanousd)}`;
}

/** Returns the sentence about a disk that is full by then; null if it is not, or cannot be known. */
async function fullDisk({ context, until }: Scene, growth: number | null): Promise<string | null> {
  const disk = await context.disk();
  if (growth === null || disk?.holds_database !== true) return null;
  const needed = (growth * Math.max(0, until.getTime() - Date.now())) / DAY_MS;
  if (needed < disk.free_bytes) return null;
  return `The disk of the database has ${sizeOf(disk.free_bytes)} left, and needs about ${sizeOf(needed)} until ${timeOf(until)}.`;
}
