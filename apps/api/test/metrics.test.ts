import { ACCOUNT_TROUBLE, PAUSE_REASONS } from '@nightshift/agent-core';
import { commitClockOffset, haltCredential, pauseCredential } from '@nightshift/db';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAgent, openApi, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

/** Returns the values of a gauge by the label `reason`. */
async function byReason(name: string): Promise<Readonly<Record<string, number>>> {
  const { status, body } = await api.call('GET', '/metrics');
  expect(status).toBe(200);
  const lines = [...(body as string).matchAll(new RegExp(`^${name}\\{reason="([^"]*)"\\} (\\d+)$`, 'gm'))];
  return Object.fromEntries(lines.map(([, reason = '', value]) => [reason, Number(value)]));
}

const NONE = {
  ...{ bad_request: 0, unauthorized: 0, spend_limit: 0, rate_limited: 0, overloaded: 0, unanswered: 0 },
  ...{ clocks_apart: 0, account: 0, halted: 0, other: 0 },
};

test('a paused credential is shown with a known reason until it may send again', async () => {
  const { db } = api.database;
  expect(await byReason('nightshift_paused_credentials')).toEqual(NONE);
  const rests = [
    ...Object.entries(PAUSE_REASONS),
    ['account', `${ACCOUNT_TROUBLE}"billing"\n_error`],
    ['other', 'in words of before'],
  ] as const;
  for (const [index, [cause, reason]] of rests.entries()) {
    await pauseCredential(db, 'default', (index + 1) * 60_000, reason);
    expect(await byReason('nightshift_paused_credentials')).toEqual({ ...NONE, [cause]: 1 });
  }
  await haltCredential(db, 'default', 'I2, a promise');
  expect(await byReason('nightshift_paused_credentials')).toEqual({ ...NONE, halted: 1 });
  await api.database.pool.query('update credential set paused_until = app_now()');
  expect(await byReason('nightshift_paused_credentials')).toEqual(NONE);
});

test("the provider's clock is shown with offset and age, and in the audit with an alarm from 30 seconds", async () => {
  const { db } = api.database;
  const shown = async (): Promise<readonly string[]> => {
    const { body } = await api.call('GET', '/metrics');
    return (body as string).split('\n').filter((line) => line.startsWith('nightshift_provider_clock_'));
  };
  const audited = async (): Promise<unknown> =>
    ((await api.call('GET', '/v1/admin/audit')).body as { clocks: unknown }).clocks;
  expect(await shown()).toEqual([]);
  expect(await audited()).toEqual([]);
  await commitClockOffset(db, 'default', { offset_ms: -29_999, uncertainty_ms: 600 });
  expect(await audited()).toMatchObject([{ name: 'default', offset_seconds: -29.999, alarm: false }]);
  expect(await commitClockOffset(db, 'default', { offset_ms: -30_000, uncertainty_ms: 600 })).toBe(false);
  await api.database.pool.query(
    `update credential set clock_measured_at = clock_measured_at - interval '11 minutes'`,
  );
  expect(await audited()).toMatchObject([
    { offset_seconds: -29.999, age_seconds: expect.closeTo(660, -2) as number },
  ]);
  expect(await commitClockOffset(db, 'default', { offset_ms: -30_000, uncertainty_ms: 600 })).toBe(true);
  expect(await audited()).toMatchObject([{ offset_seconds: -30, uncertainty_seconds: 0.6, alarm: true }]);
  expect(await shown()).toEqual([
    'nightshift_provider_clock_offset_seconds{credential="default"} -30',
    'nightshift_provider_clock_uncertainty_seconds{credential="default"} 0.6',
    expect.stringMatching(/^nightshift_provider_clock_age_seconds\{credential="default"\} [0-9.]+$/),
  ]);
});

test('overshoots, cut-off answers and the errors of recent estimates are shown', async () => {
  const { pool } = api.database;
  const valuesOf = async (name: string): Promise<readonly string[]> => {
    const { body } = await api.call('GET', '/metrics');
    return [...(body as string).matchAll(new RegExp(`^nightshift_${name}(?:\\{[^}]*\\})? .*$`, 'gm'))].map(
      ([line]) => line.slice('nightshift_'.length),
    );
  };
  expect(await valuesOf('overshoots')).toEqual(['overshoots 0']);
  expect(await valuesOf('estimate_error')).toEqual([]);
  const agent_id = await createAgent(api);
  for (const [index, error] of [-0.5, 0, 0.5].entries()) {
    const { body } = await api.call('POST', '/v1/batches', {
      requests: [{ agent_id, input: 'Go.', conversation: 'isolated' }],
      max_cost_usd: 1,
    });
    const id = body.id.slice('job-'.length);
    await pool.query(
      `update batch set state = 'completed', completed_at = app_now() - $2 * interval '1 day', estimate_error = $3
        where id = $1`,
      [id, index, error],
    );
    await pool.query('update batch_budget set overshoots = 1, cut_offs = 2 where batch_id = $1', [id]);
  }
  await pool.query(
    `update batch set completed_at = app_now() - interval '31 days' where estimate_error = -0.5`,
  );
  expect(await valuesOf('overshoots')).toEqual(['overshoots 3']);
  expect(await valuesOf('cut_off_answers')).toEqual(['cut_off_answers 6']);
  expect(await valuesOf('estimated_batches')).toEqual(['estimated_batches 2']);
  expect(await valuesOf('estimate_error')).toEqual([
    'estimate_error{quantile="0.1"} 0.05',
    'estimate_error{quantile="0.5"} 0.25',
    'estimate_error{quantile="0.9"} 0.45',
  ]);
});
