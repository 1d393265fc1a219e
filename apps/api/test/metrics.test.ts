import { ACCOUNT_TROUBLE, PAUSE_REASONS } from '@nightshift/agent-core';
import { haltCredential, pauseCredential } from '@nightshift/db';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openApi, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

/** The values of a gauge by the label `reason`. */
async function byReason(name: string): Promise<Readonly<Record<string, number>>> {
  const { status, body } = await api.call('GET', '/metrics');
  expect(status).toBe(200);
  const lines = [...(body as string).matchAll(new RegExp(`^${name}\\{reason="([^"]*)"\\} (\\d+)$`, 'gm'))];
  return Object.fromEntries(lines.map(([, reason = '', value]) => [reason, Number(value)]));
}

const NONE = {
  ...{ bad_request: 0, unauthorized: 0, spend_limit: 0, rate_limited: 0, overloaded: 0, unanswered: 0 },
  ...{ account: 0, halted: 0, other: 0 },
};

test('a credential under which nothing is sent shows, with one of a few reasons, until it may send again', async () => {
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
