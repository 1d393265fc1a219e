/**
 * Fires schedules around every change of every zone in 2026, by workers that are killed, paused and cut off. Each tick must
 * have one batch; none is lost, none is invented. The batches end at once.
 */
import type pg from 'pg';
import { fireSchedules, type FireDeps } from '../apps/worker/src/flows/fire-schedules/fire-schedules.ts';
import { createPump } from '../apps/worker/src/queues/pump.ts';
import {
  auditInvariants,
  connect,
  createSchedule,
  DEFAULT_PROJECT_ID,
  inTransaction,
} from '../libs/db/src/index.ts';
import { afterTick } from '../libs/intake/src/index.ts';
import { changingZones, momentsOf, type Change } from '../libs/intake/test/schedule/zone-changes.ts';
import type { ProofDatabase } from './database.ts';
import type { Violation } from './invariants.ts';
import { createRandom, type Random } from './random.ts';
import { replaceGlobals } from './replace-globals.ts';
import { createSimPool, type Rewrite } from './sim-pool.ts';
import { SETTINGS } from './worker.ts';
import { storeAgents } from './workload.ts';
import { createActor, createWorld, currentActor, type StrikePoint, type Strike } from './world.ts';

export interface ScheduleSimulationOptions {
  readonly seed: number;
  /** Zones taken, evenly spread. Default: all. */
  readonly zones?: number;
  readonly sabotage?: {
    readonly rewrite?: Rewrite;
    readonly deps?: (deps: FireDeps) => FireDeps;
  };
}

export interface ScheduleSimulationResult {
  readonly violations: readonly Violation[];
  readonly zones: number;
  readonly ticks: number;
  readonly kills: number;
  readonly traceHash: string;
}

/** The checks of this simulation. */
export const SCHEDULE_CHECKS = [
  'tick_lost',
  'tick_invented',
  'tick_doubled',
  'schedule_open',
  'I17',
] as const;
/** The named points that this simulation strikes. */
export const SCHEDULE_POINTS = ['fire.before_commit', 'fire.after_commit'] as const;

const HOUR = 3_600_000;
const STARTS_AT = Date.UTC(2026, 0, 1);
const WORKERS = 3;
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
/** Faults by effect; at named points ten times as many. */
const RATES = { kill: 0.002, pause: 0.0005, fail: 0.001 };
const STEPS_PER_CHECK = 2_000;
/** Far more than a schedule takes. */
const STEPS_PER_SCHEDULE = 5_000;

const RULES = [
  { cron: '*/20 * * * *', minutes: [0, 20, 40], hours: HOURS, is_fixed: false, span_ms: 5 * HOUR },
  {
    cron: '10,45 0-3,22-23 * * *',
    minutes: [10, 45],
    hours: [0, 1, 2, 3, 22, 23],
    is_fixed: true,
    span_ms: 12 * HOUR,
  },
] as const;

interface PlannedSchedule {
  readonly name: string;
  readonly cron: string;
  readonly time_zone: string;
  readonly from: Date;
  readonly to: Date;
  readonly expected: readonly number[];
}

/** Read once: it takes seconds. */
let zonesOfYear: ReturnType<typeof changingZones> | undefined;

function planSchedules(zoneCount: number | undefined): readonly PlannedSchedule[] {
  const all = (zonesOfYear ??= changingZones());
  const zones = all.filter(
    (_, index) => zoneCount === undefined || index % Math.ceil(all.length / zoneCount) === 0,
  );
  return zones.flatMap(({ time_zone, changes }) =>
    changes.flatMap((change) => RULES.map((rule) => planSchedule(time_zone, change, rule))),
  );
}

function planSchedule(time_zone: string, change: Change, rule: (typeof RULES)[number]): PlannedSchedule {
  const { cron, minutes, hours, is_fixed, span_ms } = rule;
  return {
    name: `${cron} ${time_zone} ${new Date(change.at).toISOString()}`,
    cron,
    time_zone,
    from: new Date(change.at - span_ms),
    to: new Date(change.at + span_ms),
    expected: momentsOf(change, minutes, hours, is_fixed, span_ms),
  };
}

/** Runs one seed. Equal seeds and databases give equal traces. */
export async function simulateSchedules(
  database: ProofDatabase,
  options: ScheduleSimulationOptions,
): Promise<ScheduleSimulationResult> {
  replaceGlobals();
  const { connection, db } = database;
  const random = createRandom(`schedules ${options.seed}`);
  const world = createWorld(random.fork('order'), STARTS_AT);
  const violations: Violation[] = [];
  const violation = (name: string, detail: string): void => void violations.push({ name, detail });
  const planned = planSchedules(options.zones);
  connection.setClock(() => world.now());
  connection.setRewrite(options.sabotage?.rewrite ?? null);
  await database.reset(true);
  await connection.query(END_AT_ONCE);
  await connection.query(
    `create trigger proof_end before insert on batch for each row when (new.schedule_id is not null)
     execute function proof_end_batch()`,
  );
  const user = createActor(world, 'user', random.fork('user'));
  await currentActor.run(user, () => storeSchedules(database, planned));

  const pool = createSimPool(world, connection, violation) as unknown as pg.Pool;
  const actors = new Set<ReturnType<typeof createActor>>();
  let incarnations = 0;
  const start = (): void => {
    incarnations += 1;
    const actor = createActor(world, `w${incarnations}`, random.fork(`w${incarnations}`));
    actors.add(actor);
    currentActor.run(actor, () => {
      const whole: FireDeps = {
        db: connect(pool),
        bell: { ring: () => Promise.resolve() },
        settings: SETTINGS,
        hooks: (point) => world.hook(point),
      };
      const deps = options.sabotage?.deps?.(whole) ?? whole;
      const pump = createPump('fire', () => fireSchedules(deps), {
        report: ({ outcome, tick }) => world.note(`${actor.name} = ${String(outcome)} ${String(tick)}`),
        failure: (_flow, error) => world.note(`${actor.name} = fails: ${String(error)}`),
      });
      pump.kick();
    });
  };
  let kills = 0;
  world.onKill((actor) => {
    kills += 1;
    actors.delete(actor);
    world.at(world.random.int(100, 5_000), 'start', start);
  });
  world.setStriker(strikerOf(random.fork('faults')));
  for (let n = 0; n < WORKERS; n++) start();
  const stepsMax = STEPS_PER_CHECK + STEPS_PER_SCHEDULE * planned.length;
  try {
    for (let steps = 1; steps < stepsMax && (await world.step()); steps++) {
      if (steps % STEPS_PER_CHECK === 0 && (await isOver(database))) break;
    }
    for (const actor of actors) actor.alive = false;
    await world.settle();
    violations.push(...(await judge(database, planned)));
  } finally {
    for (const actor of actors) actor.alive = false;
    await world.settle();
    await connection.query('drop trigger proof_end on batch');
    connection.setClock(null);
    connection.setRewrite(null);
  }
  const found = await auditInvariants(db, { among: (id) => id === 'I17' });
  violations.push(
    ...found.map(({ id, name, row }) => ({ name: id, detail: `${name}: ${JSON.stringify(row)}` })),
  );
  return {
    violations,
    zones: new Set(planned.map(({ time_zone }) => time_zone)).size,
    ticks: planned.reduce((sum, { expected }) => sum + expected.length, 0),
    kills,
    traceHash: world.traceHash(),
  };
}

const END_AT_ONCE = `create or replace function proof_end_batch() returns trigger language plpgsql as
  $$ begin new.state := 'completed'; new.completed_at := app_now(); return new; end $$`;

async function storeSchedules(database: ProofDatabase, planned: readonly PlannedSchedule[]): Promise<void> {
  const { db } = database;
  const [agent_id] = await storeAgents(db, { agents: 1, batches: [] });
  const body = { requests: [{ agent_id, input: 'Go on.', conversation: 'isolated' }] };
  await inTransaction(db, async (trx) => {
    for (const [index, { name, cron, time_zone, from, to }] of planned.entries()) {
      const id = `00000000-0000-7000-8000-${index.toString(16).padStart(12, '0')}`;
      const options = {
        overlap: 'skip',
        catch_up_window_s: 3_600,
        jitter_s: index % 3 === 0 ? 60 : 0,
      } as const;
      const settings = { name, cron, time_zone, body, ...options, ends_at: to };
      const limits = { max_cost_nanousd_per_month: null, failures_max: null };
      const timing = afterTick({ id, ...settings }, from);
      await createSchedule(trx, DEFAULT_PROJECT_ID, { id, ...settings, ...limits, ...timing });
    }
  });
}

function strikerOf(random: Random): (point: StrikePoint) => Strike | null {
  return ({ kind }) => {
    const draw = random.next() / (kind === 'hook' ? 10 : 1);
    const performed = random.chance(0.5);
    if (draw < RATES.kill) return { kind: 'kill', performed };
    if (draw < RATES.kill + RATES.pause) return { kind: 'pause', ms: random.int(1_000, 60_000), performed };
    if (draw < RATES.kill + RATES.pause + RATES.fail) return { kind: 'fail', performed };
    return null;
  };
}

async function isOver({ connection }: ProofDatabase): Promise<boolean> {
  const { rows } = await connection.query(
    `select exists (select from schedule where state = 'active') as open`,
  );
  return !(rows[0] as { open: boolean }).open;
}

interface StoredTick {
  readonly name: string;
  readonly due_at: Date;
  readonly outcome: string;
  readonly batches: number;
}

/** Compares the stored ticks and batches with the expected moments. */
async function judge(
  database: ProofDatabase,
  planned: readonly PlannedSchedule[],
): Promise<readonly Violation[]> {
  const { rows } = await database.connection.query(`
    select s.name, m.due_at, coalesce(t.outcome, 'none') as outcome, count(b.id)::int as batches
      from (select schedule_id, due_at from tick
            union select schedule_id, tick_due_at from batch where schedule_id is not null) m
      join schedule s on s.id = m.schedule_id
      left join tick t on t.schedule_id = m.schedule_id and t.due_at = m.due_at
      left join batch b on b.schedule_id = m.schedule_id and b.tick_due_at = m.due_at
     group by s.name, m.due_at, t.outcome`);
  const stored = new Map(
    (rows as StoredTick[]).map((tick) => [`${tick.name} at ${tick.due_at.toISOString()}`, tick]),
  );
  const found: Violation[] = [];
  for (const { name, expected } of planned) {
    for (const moment of expected) {
      const key = `${name} at ${new Date(moment).toISOString()}`;
      const tick = stored.get(key);
      stored.delete(key);
      if (tick?.outcome !== 'started')
        found.push({ name: 'tick_lost', detail: `${key}: ${tick?.outcome ?? 'no row'}` });
      else if (tick.batches !== 1)
        found.push({ name: 'tick_doubled', detail: `${key}: ${tick.batches} batches` });
    }
  }
  for (const key of stored.keys()) found.push({ name: 'tick_invented', detail: key });
  if (!(await isOver(database))) found.push({ name: 'schedule_open', detail: 'a schedule has not ended' });
  return found;
}
