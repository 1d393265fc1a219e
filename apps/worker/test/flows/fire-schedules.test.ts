import type {} from '../../../../test/global-setup.ts';
import {
  auditInvariants,
  commitSchedulePaused,
  createSchedule,
  DEFAULT_PROJECT_ID,
  inTransaction,
  lockSchedule,
  newId,
  writeTick,
} from '@nightshift/db';
import { afterTick } from '@nightshift/intake';
import { afterEach, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import type { FlowDeps, FlowReport } from '../../src/flow-parts/deps.ts';
import { findDueFlows } from '../../src/flows/find-due-flows.ts';
import { fireSchedules } from '../../src/flows/fire-schedules/fire-schedules.ts';
import { createPumps } from '../../src/queues/pumps.ts';
import { openHouse, type House } from './house.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

interface ScheduleParts {
  readonly name?: string;
  readonly cron?: string;
  readonly time_zone?: string;
  readonly body?: unknown;
  readonly overlap?: 'skip' | 'queue';
  readonly catch_up_window_s?: number;
  readonly jitter_s?: number;
  readonly ends_at?: Date;
  readonly max_cost_nanousd_per_month?: number;
  readonly failures_max?: number;
}

interface Tick {
  readonly due_at: Date;
  readonly outcome: string;
  readonly reason: string | null;
  readonly message: string | null;
  readonly batch_id: string | null;
}

let house: House;
let agentId: string;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  const { agent_ids } = await house.submit([{ input: 'hello' }]);
  agentId = agent_ids[0]!;
  await house.drive(house.worker());
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

const bodyOf = (agent_id: string): object => ({
  requests: [{ agent_id, input: 'Go on.', conversation: 'isolated' }],
});

/** Stores a schedule at a time that is long past, so that all its ticks are due. */
async function schedule(from: Date, parts: ScheduleParts = {}): Promise<string> {
  const id = newId();
  const settings = {
    name: id,
    cron: '0 * * * *',
    time_zone: 'UTC',
    body: bodyOf(agentId),
    overlap: 'skip' as const,
    catch_up_window_s: 7_200,
    jitter_s: 0,
    ends_at: null,
    max_cost_nanousd_per_month: null,
    failures_max: null,
    ...parts,
  };
  const timing = afterTick({ id, ...settings }, from);
  await inTransaction(house.database.db, (trx) =>
    createSchedule(trx, DEFAULT_PROJECT_ID, { id, ...settings, ...timing }),
  );
  return id;
}

const ticksOf = (id: string): Promise<Tick[]> =>
  house.rows<Tick>(
    'select due_at, outcome, reason, message, batch_id from tick where schedule_id = $1 order by due_at',
    [id],
  );
const stateOf = async (id: string) =>
  (
    await house.rows<{
      state: string;
      state_reason: string | null;
      tick_due_at: Date | null;
      next_due_at: Date | null;
    }>('select state, state_reason, tick_due_at, next_due_at from schedule where id = $1', [id])
  )[0]!;
const batchesOf = (id: string) =>
  house.rows<{ id: string; tick_due_at: Date }>('select id, tick_due_at from batch where schedule_id = $1', [
    id,
  ]);

/** Looks until no schedule is due. */
async function fireAll(worker: FlowDeps): Promise<readonly FlowReport[]> {
  const reports: FlowReport[] = [];
  for (let round = 0; round < 200; round++) {
    const report = await fireSchedules(worker);
    if (!report.worked) return reports;
    reports.push(report);
  }
  throw new Error('Schedules stay due.');
}

/** Returns the start of the hour, some hours ago. */
const ago = (hours: number): Date => new Date((Math.floor(Date.now() / HOUR) - hours) * HOUR);

/** Ends the open batch of a schedule past its deadline, so that it fails. */
async function failBatch(worker: FlowDeps, id: string): Promise<void> {
  await house.rows(
    `update run set overdue_from = '2001-01-01Z', deadline_at = '2001-01-01Z'
      where batch_id in (select id from batch where schedule_id = $1) and ended_at is null`,
    [id],
  );
  await house.drive(worker);
}

const minutesAgo = (minutes: number): Date => new Date((Math.floor(Date.now() / MINUTE) - minutes) * MINUTE);

describe('a due tick', () => {
  test('makes one batch, whichever of several workers is first', async () => {
    const workers = Array.from({ length: 4 }, () => house.worker());
    const id = await schedule(ago(1));
    await Promise.all(workers.map((worker) => fireSchedules(worker)));
    await Promise.all(workers.map((worker) => fireAll(worker)));
    const batches = await batchesOf(id);
    const ticks = await ticksOf(id);
    expect(ticks.filter(({ outcome }) => outcome === 'started')).toHaveLength(1);
    expect(batches.map(({ id: batch }) => batch)).toEqual(
      ticks.flatMap(({ batch_id }) => (batch_id === null ? [] : [batch_id])),
    );
    const { tick_due_at } = await stateOf(id);
    expect(tick_due_at!.getTime()).toBeGreaterThan(ticks.at(-1)!.due_at.getTime());
  });

  test('of many schedules: one batch each by workers that race', async () => {
    const ids: string[] = [];
    for (let index = 0; index < 12; index++) ids.push(await schedule(ago(1)));
    await Promise.all(Array.from({ length: 4 }, () => fireAll(house.worker())));
    for (const id of ids) {
      expect((await ticksOf(id)).map(({ outcome }) => outcome)).toEqual(['started']);
      expect(await batchesOf(id)).toHaveLength(1);
    }
  });

  test('is lost with nothing else when its worker dies before the commit, and is made by the next', async () => {
    const id = await schedule(ago(1));
    const dying = house.worker({ hooks: dieAt('fire.before_commit') });
    await expect(fireSchedules(dying)).resolves.toMatchObject({ alarm: true, outcome: 'failed' });
    expect(await ticksOf(id)).toEqual([]);
    expect(await batchesOf(id)).toEqual([]);
    await house.rows('update schedule set next_due_at = tick_due_at');
    await fireAll(house.worker());
    expect(await batchesOf(id)).toHaveLength(1);
  });

  test('is made once when its worker dies after the commit', async () => {
    const id = await schedule(ago(1));
    await fireSchedules(house.worker({ hooks: dieAt('fire.after_commit') }));
    await fireAll(house.worker());
    expect((await ticksOf(id)).map(({ outcome }) => outcome)).toEqual(['started']);
    expect(await batchesOf(id)).toHaveLength(1);
  });

  test('is found by a look, before it is due: the flow waits for the exact time', async () => {
    const worker = house.worker();
    const id = await schedule(new Date());
    await house.rows(`update schedule set next_due_at = app_now() + interval '20 seconds' where id = $1`, [
      id,
    ]);
    const report = await fireSchedules(worker);
    expect(await findDueFlows(worker)).toContain('fire');
    expect(report.worked).toBe(false);
    expect(report.again_in_ms).toBeGreaterThan(15_000);
    expect(report.again_in_ms).toBeLessThan(20_100);
  });

  test('starts at its time without a signal: a look a minute before is enough', async () => {
    const worker = house.worker();
    const id = await schedule(ago(1));
    await house.rows(
      `update schedule set next_due_at = app_now() + interval '300 milliseconds' where id = $1`,
      [id],
    );
    const pumps = createPumps(worker, { report: () => undefined, failure: () => undefined });
    pumps.look();
    await vi.waitFor(async () => expect(await batchesOf(id)).toHaveLength(1), { timeout: 10_000 });
    await pumps.stop();
    const [tick] = await house.rows<{ late_ms: number }>(
      `select (extract(epoch from t.created_at - s.created_at) * 1000)::float8 as late_ms
         from tick t join schedule s on s.id = t.schedule_id where s.id = $1`,
      [id],
    );
    expect(tick!.late_ms).toBeGreaterThanOrEqual(300);
  });

  test('of a body that fails unexpectedly waits a minute, and the others go on', async () => {
    const broken = await schedule(ago(1), { body: { requests: 'none' } });
    const sound = await schedule(ago(1));
    const reports = await fireAll(house.worker());
    expect(reports.filter(({ alarm }) => alarm === true)).toHaveLength(1);
    expect(await batchesOf(sound)).toHaveLength(1);
    expect((await stateOf(broken)).next_due_at!.getTime()).toBeGreaterThan(Date.now());
  });
});

function dieAt(point: string) {
  return (reached: string): void => {
    if (reached === point) throw new Error('The worker is dead.');
  };
}

describe('after an outage', () => {
  test('the latest missed tick runs and the others are recorded', async () => {
    const id = await schedule(minutesAgo(5), { cron: '* * * * *' });
    await fireAll(house.worker());
    const ticks = await ticksOf(id);
    expect(ticks.length).toBeGreaterThanOrEqual(5);
    expect(ticks.at(-1)).toMatchObject({ outcome: 'started' });
    for (const tick of ticks.slice(0, -1))
      expect(tick).toMatchObject({ outcome: 'missed', reason: 'outage' });
  });

  test('a tick beyond the window does not run', async () => {
    const id = await schedule(ago(10), {
      cron: `0 ${ago(3).getUTCHours()} * * *`,
    });
    await fireAll(house.worker());
    expect((await ticksOf(id)).map(({ outcome }) => outcome)).toEqual(['missed']);
    expect(await batchesOf(id)).toEqual([]);
    expect(await stateOf(id)).toMatchObject({ state: 'active' });
  });

  test('two weeks of a minute rule are recorded in portions', async () => {
    const from = minutesAgo(14 * 24 * 60);
    const id = await schedule(from, { cron: '* * * * *' });
    const reports = await fireAll(house.worker());
    const ticks = await ticksOf(id);
    expect(ticks.length).toBeGreaterThanOrEqual(14 * 24 * 60);
    expect(ticks.filter(({ outcome }) => outcome === 'started')).toHaveLength(1);
    expect(ticks.filter(({ outcome }) => outcome === 'missed')).toHaveLength(ticks.length - 1);
    expect(Math.max(...reports.map(({ missed }) => Number(missed)))).toBeLessThanOrEqual(500);
    for (const [index, { due_at }] of ticks.entries()) {
      expect(due_at.getTime()).toBe(from.getTime() + (index + 1) * MINUTE);
    }
  });
});

describe('while the last batch is open', () => {
  test('`skip` skips the tick with its reason', async () => {
    const worker = house.worker();
    const id = await schedule(ago(1));
    await fireAll(worker);
    await rewindNext(id);
    await fireAll(worker);
    expect((await ticksOf(id)).at(-1)).toMatchObject({ outcome: 'skipped', reason: 'overlap' });
    expect(await batchesOf(id)).toHaveLength(1);
  });

  test('`queue` lets one tick wait, skips the next, and starts the waiting one at the end', async () => {
    const worker = house.worker();
    const id = await schedule(ago(1), { overlap: 'queue' });
    await fireAll(worker);
    await rewindNext(id);
    await fireAll(worker);
    await rewindNext(id);
    await fireAll(worker);
    const outcomes = (await ticksOf(id)).map(({ outcome }) => outcome);
    expect(outcomes).toEqual(['started', 'waiting', 'skipped']);
    await house.drive(worker);
    expect(await findDueFlows(worker)).toContain('fire');
    await fireAll(worker);
    expect((await ticksOf(id)).map(({ outcome }) => outcome)).toEqual(['started', 'started', 'skipped']);
    expect(await batchesOf(id)).toHaveLength(2);
  });
});

/** Moves all ticks of a schedule an hour back, so that its next tick is the present hour's. */
async function rewindNext(id: string): Promise<void> {
  await house.rows(`update batch set tick_due_at = tick_due_at - interval '1 hour' where schedule_id = $1`, [
    id,
  ]);
  for (const { due_at } of await ticksOf(id)) {
    await house.rows(
      `update tick set due_at = due_at - interval '1 hour' where schedule_id = $1 and due_at = $2`,
      [id, due_at],
    );
  }
  await house.rows(
    `update schedule set tick_due_at = tick_due_at - interval '1 hour', next_due_at = tick_due_at - interval '1 hour' where id = $1`,
    [id],
  );
}

describe('a pause', () => {
  test('skips the waiting tick of the rule, and a resume goes on from now', async () => {
    const worker = house.worker();
    const id = await schedule(ago(1), { overlap: 'queue' });
    await fireAll(worker);
    await rewindNext(id);
    await fireAll(worker);
    const { db } = house.database;
    await inTransaction(db, async (trx) => {
      await lockSchedule(trx, DEFAULT_PROJECT_ID, id);
      await commitSchedulePaused(trx, id, 'by a test');
    });
    expect((await ticksOf(id)).at(-1)).toMatchObject({ outcome: 'skipped', reason: 'paused' });
    await house.drive(worker);
    await fireAll(worker);
    expect(await stateOf(id)).toMatchObject({ state: 'paused', tick_due_at: null, next_due_at: null });
    expect(await batchesOf(id)).toHaveLength(1);
  });

  test('lets a tick wait that a person asked for, and it starts at the end of the batch', async () => {
    const worker = house.worker();
    const id = await schedule(ago(1), { overlap: 'queue' });
    await fireAll(worker);
    const { db } = house.database;
    await inTransaction(db, async (trx) => {
      const held = await lockSchedule(trx, DEFAULT_PROJECT_ID, id);
      const tick = { due_at: new Date(), is_manual: true, was_waiting: false };
      await writeTick(trx, held, { ...tick, kind: 'wait', reason: 'overlap', message: 'Waits.' }, null);
      await commitSchedulePaused(trx, id, 'by a test');
    });
    await fireAll(worker);
    expect(await batchesOf(id)).toHaveLength(1);
    await house.drive(worker);
    await fireAll(worker);
    expect(await batchesOf(id)).toHaveLength(2);
    expect((await ticksOf(id)).map(({ outcome }) => outcome)).toEqual(['started', 'started']);
    expect(await stateOf(id)).toMatchObject({ state: 'paused', next_due_at: null });
  });
});

describe('the budget of a month', () => {
  test('caps a batch by what is left, and skips a tick when nothing is', async () => {
    const worker = house.worker();
    const id = await schedule(ago(1), { max_cost_nanousd_per_month: 5_000_000_000 });
    await fireAll(worker);
    const caps = await house.rows('select max_cost_nanousd from batch_budget');
    expect(caps).toEqual([{ max_cost_nanousd: 5_000_000_000 }]);
    await house.drive(worker);
    await fireAll(worker);
    const [spent] = await house.rows<{ cost: number }>(
      `select sum(cost_nanousd)::bigint as cost from batch_tally where batch_id in (select id from batch where schedule_id = $1)`,
      [id],
    );
    expect(spent!.cost).toBeGreaterThan(0);
    await rewindNext(id);
    await fireAll(worker);
    const [last] = await house.rows<{ left: number }>(
      'select max_cost_nanousd as left from batch_budget order by batch_id desc limit 1',
    );
    expect(last!.left).toBe(5_000_000_000 - spent!.cost);
    await house.drive(worker);
    await fireAll(worker);
    await house.rows('update schedule set max_cost_nanousd_per_month = 1');
    await rewindNext(id);
    await fireAll(worker);
    const tick = (await ticksOf(id)).at(-1);
    expect(tick).toMatchObject({ outcome: 'skipped', reason: 'no_budget' });
    expect(tick!.message).toContain('this month');
  });
});

describe('a refused body', () => {
  test('leaves a refused tick with the code and message of the error', async () => {
    const id = await schedule(ago(1));
    await house.rows('update agent set deleted_at = app_now() where id = $1', [agentId]);
    await fireAll(house.worker());
    const [tick] = await ticksOf(id);
    expect(tick).toMatchObject({ outcome: 'refused', reason: 'not_found' });
    expect(tick!.message).toContain(`There is no agent agent-${agentId}`);
    expect(await stateOf(id)).toMatchObject({ state: 'active' });
  });

  test('pauses the schedule after the last allowed failure, with its reason', async () => {
    const id = await schedule(ago(1), { failures_max: 2 });
    await house.rows('update agent set deleted_at = app_now() where id = $1', [agentId]);
    await fireAll(house.worker());
    expect(await stateOf(id)).toMatchObject({ state: 'active' });
    await rewindNext(id);
    await fireAll(house.worker());
    expect(await stateOf(id)).toMatchObject({
      state: 'paused',
      state_reason: expect.stringContaining('2 failed ticks') as string,
      tick_due_at: null,
      next_due_at: null,
    });
  });
});

test('batches that fail in a row pause the schedule; the end of a batch is enough', async () => {
  const worker = house.worker();
  const id = await schedule(ago(1), { failures_max: 1 });
  await fireAll(worker);
  await failBatch(worker, id);
  const [batch] = await house.rows<{ state: string }>('select state from batch where schedule_id = $1', [id]);
  expect(batch).toEqual({ state: 'failed' });
  await fireAll(worker);
  expect(await stateOf(id)).toMatchObject({ state: 'paused' });
});

test('a pause after failures starts the waiting tick that a person asked for', async () => {
  const worker = house.worker();
  const id = await schedule(ago(1), { failures_max: 1, overlap: 'queue' });
  await fireAll(worker);
  await inTransaction(house.database.db, async (trx) => {
    const held = await lockSchedule(trx, DEFAULT_PROJECT_ID, id);
    const tick = { due_at: new Date(), is_manual: true, was_waiting: false };
    await writeTick(trx, held, { ...tick, kind: 'wait', reason: 'overlap', message: 'Waits.' }, null);
  });
  await failBatch(worker, id);
  await fireAll(worker);
  expect((await ticksOf(id)).map(({ outcome }) => outcome)).toEqual(['started', 'started']);
  expect(await stateOf(id)).toMatchObject({ state: 'paused', tick_due_at: null });
});

test('a schedule ends with its last tick', async () => {
  const ends_at = new Date(ago(0).getTime() + 30_000);
  const id = await schedule(ago(2), { ends_at });
  await fireAll(house.worker());
  const ticks = await ticksOf(id);
  expect(ticks.at(-1)).toMatchObject({ outcome: 'started' });
  expect(await stateOf(id)).toMatchObject({ state: 'ended', tick_due_at: null, next_due_at: null });
  expect(await fireAll(house.worker())).toEqual([]);
});

test('jitter delays a tick by the same time for every worker, and not its due time', async () => {
  const id = await schedule(ago(2), { jitter_s: 1_800 });
  const { tick_due_at, next_due_at } = await stateOf(id);
  const delay = next_due_at!.getTime() - tick_due_at!.getTime();
  expect(delay).toBeGreaterThanOrEqual(0);
  expect(delay).toBeLessThanOrEqual(1_800_000);
  await fireAll(house.worker());
  for (const { due_at } of await ticksOf(id)) expect(due_at.getUTCMinutes()).toBe(0);
});
