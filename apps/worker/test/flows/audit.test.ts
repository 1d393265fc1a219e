import {
  auditInvariants,
  inTransaction,
  pauseCredential,
  readLastAudit,
  resumeCredential,
} from '@nightshift/db';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { auditBooks } from '../../src/flows/audit-books/audit-books.ts';
import type { FlowReport } from '../../src/flow-parts/deps.ts';
import { call, openHouse, type House } from './house.ts';

let house: House;
beforeAll(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterAll(() => house.close());

test('the database passes the audit after any scenario, and halfway through', async () => {
  const rewrite = (n: number): string => call('core_memory_append', { label: 'notes', content: `line ${n}` });
  const runs = Array.from({ length: 8 }, (_, index) => ({
    input: Array.from({ length: index % 4 }, (_unused, n) => rewrite(n)).join('\n') || 'Say hello.',
    blocks: { notes: 'old' },
    tools: ['core_memory_append'],
    max_steps: index % 5 === 4 ? 2 : 10,
  }));
  await house.submit([
    ...runs,
    { input: rewrite(9), same_agent_as: 3 },
    { input: rewrite(10), same_agent_as: 3 },
  ]);
  const found: unknown[] = [];
  const worker = house.worker({
    settings: { requests_max: 5, chunk_lines: 3 },
    // A crash may happen between any two steps, so the database must be valid at each.
    hooks: async (point) => {
      // Inside a transaction nothing new is visible.
      if (point.endsWith('before_commit')) return;
      const violations = await auditInvariants(house.database.db);
      if (violations.length > 0) found.push({ point, violations });
    },
  });
  await house.drive(worker);
  expect(found).toEqual([]);
  expect(await auditInvariants(house.database.db)).toEqual([]);
  const states = await house.rows('select distinct state from batch');
  expect(states).toEqual([{ state: 'completed' }]);
});

test('a money violation halts submissions and is reported, even if the rest of the audit fails', async () => {
  await house.rows('update provider_batch set request_count = request_count + 1');
  await house.rows('alter table schedule rename to schedule_away');
  await expect(auditBooks(house.worker())).rejects.toThrow('schedule');
  const report = await readLastAudit(house.database.db);
  expect(new Set(report?.violations.map(({ id }) => id))).toEqual(new Set(['I9']));
  expect(await house.rows('select pause_reason from credential')).toEqual([
    { pause_reason: expect.stringContaining('I9') },
  ]);
});

test('a halt outlasts its violation: until a resume, each audit is an alarm and names the next step', async () => {
  const halted = await openHouse(inject('postgresUrl'));
  try {
    await halted.submit([{ input: 'Say hello.' }]);
    const worker = halted.worker();
    await halted.drive(worker);
    const auditBooksAgain = async (): Promise<FlowReport> => {
      await halted.rows('delete from audit_report');
      return auditBooks(worker);
    };
    expect(await auditBooksAgain()).toEqual({
      ...{
        flow: 'audit-books',
        worked: true,
        covers: 'all',
        violations: 0,
        broken: '',
        halted: false,
        alarm: false,
      },
    });
    await halted.rows('update provider_batch set request_count = request_count + 1');
    const told = {
      halted: true,
      alarm: true,
      reason: expect.stringMatching(/^halted by the audit: I9, .+npm run audit -- --resume/) as string,
    };
    expect(await auditBooksAgain()).toMatchObject({ ...told, violations: 1, broken: 'I9' });
    await halted.rows('update provider_batch set request_count = request_count - 1');
    for (let audits = 0; audits < 2; audits++)
      expect(await auditBooksAgain()).toMatchObject({ ...told, violations: 0, broken: '' });
    await inTransaction(halted.database.db, (trx) => resumeCredential(trx, 'default'));
    // A pause is no halt.
    await pauseCredential(halted.database.db, 'default', 60_000, 'the provider is overloaded');
    expect(await auditBooksAgain()).toMatchObject({ violations: 0, halted: false, alarm: false });
  } finally {
    await halted.close();
  }
});

test('timestamps of a clock that was set back are reported and halt nothing', async () => {
  const clocks = await openHouse(inject('postgresUrl'));
  try {
    await clocks.submit([{ input: 'Say hello.' }]);
    const worker = clocks.worker();
    await clocks.drive(worker);
    await clocks.rows(`update step set sealed_at = sealed_at + interval '1 day'`);
    await clocks.rows('delete from audit_report');
    await auditBooks(worker);
    const report = await readLastAudit(clocks.database.db);
    expect(new Set(report?.violations.map(({ id }) => id))).toEqual(new Set(['I13']));
    expect(await clocks.rows('select 1 from credential where pause_reason is not null')).toEqual([]);
  } finally {
    await clocks.close();
  }
});
