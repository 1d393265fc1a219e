import type {} from '../../../../test/global-setup.ts';
import { readLastAudit } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { auditBooks } from '../../src/flows/audit-books/audit-books.ts';
import type { FlowDeps, FlowReport } from '../../src/flow-parts/deps.ts';
import { openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
let worker: FlowDeps;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  worker = house.worker();
});
afterEach(() => house.close());

async function runBatch(): Promise<SubmittedBatch> {
  const batch = await house.submit([{ input: 'Hello.' }, { input: 'Hello.', isolated: true }]);
  await house.drive(worker);
  return batch;
}

/** Lets time pass: all batches and reports are older by it. */
async function pass(interval: string): Promise<void> {
  for (const [table, columns] of Object.entries({
    audit_report: ['started_at', 'finished_at', 'covered_to'],
    batch: ['created_at', 'completed_at'],
    run: ['created_at', 'started_at', 'ended_at'],
    run_failure: ['failed_at'],
    step: ['sealed_at', 'applied_at', 'ended_at'],
    message: ['created_at'],
  })) {
    const moved = columns.map((name) => `${name} = ${name} - $1::interval`).join(', ');
    await house.rows(`update ${table} set ${moved}`, [interval]);
  }
}

async function audit() {
  const report: FlowReport = await auditBooks(worker);
  expect(report.worked).toBe(true);
  const found = (await readLastAudit(house.database.db))?.violations ?? [];
  return { covers: report['covers'], halted: report['halted'], ids: [...new Set(found.map(({ id }) => id))] };
}

/** Audits at intervals until a violation is found, and returns the hours. */
async function hoursUntilFound(interval: number): Promise<number> {
  for (let hours = interval; ; hours += interval) {
    await pass(`${interval} hours`);
    if ((await audit()).ids.length > 0) return hours;
    expect(hours).toBeLessThan(7 * 24);
  }
}

const breakTally = (batch: SubmittedBatch, by: number) =>
  house.rows(
    'update batch_tally set steps = steps + $2 where batch_id = $1 and slot = (select min(slot) from batch_tally where batch_id = $1)',
    [batch.id, by],
  );

test('the first audit reads all, later ones find a violation of an open or just ended batch at once', async () => {
  await runBatch();
  expect(await audit()).toMatchObject({ covers: 'all', ids: [] });
  await pass('10 minutes');
  const batch = await runBatch();
  await breakTally(batch, 1);
  expect(await audit()).toMatchObject({ covers: 'changes and a slice', ids: ['I11'] });
  // Read as a whole until it is mended.
  await pass('2 days');
  expect(await audit()).toMatchObject({ covers: 'all', ids: ['I11'] });
  await breakTally(batch, -1);
  await pass('2 days');
  expect(await audit()).toMatchObject({ covers: 'all', ids: [] });
  await pass('10 minutes');
  expect(await audit()).toMatchObject({ covers: 'changes and a slice', ids: [] });
});

test('a violation of money in an old batch is found within a week of slices, and halts all sending', async () => {
  const batches: SubmittedBatch[] = [];
  for (let n = 0; n < 8; n++) batches.push(await runBatch());
  await audit();
  await pass('3 days');
  await audit();
  const [old] = batches;
  await house.rows('update step set state = $2, ended_at = null, applied_at = null where run_id = $1', [
    old?.run_ids[0],
    'sealed',
  ]);
  expect(await hoursUntilFound(6)).toBeGreaterThan(24);
  await pass('1 day');
  expect((await audit()).halted).toBe(true);
});

test('a week of slices reads each batch and the rows without a batch', async () => {
  for (let n = 0; n < 5; n++) await runBatch();
  await audit();
  await pass('2 days');
  await house.rows(
    `insert into tool_call (project_id, run_id, step_number, call_index, tool_use_id, tool_name, kind, state)
     select project_id, gen_random_uuid(), 1, 0, 'x', 'x', 'module', 'pending' from run limit 1`,
  );
  await hoursUntilFound(12);
  expect((await readLastAudit(house.database.db))?.violations).toMatchObject([{ id: 'I21' }]);
});
