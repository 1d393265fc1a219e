import { connect } from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { createPool } from '@nightshift/services';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { buildServer } from '../src/index.ts';
import { API_KEY } from './api.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

test('concurrent audit requests share the running audit', async () => {
  const auditPool = createPool({ url: database.url, max: 1 });
  let begun = 0;
  auditPool.on('acquire', () => begun++);
  const app = buildServer({
    db: database.db,
    auditDb: connect(auditPool),
    bell: { ring: async () => undefined },
    apiKey: API_KEY,
    model: 'simulator',
  });
  let arrived = 0;
  app.addHook('preHandler', async () => {
    arrived++;
  });
  const ask = () => app.inject({ url: '/v1/admin/audit', headers: { authorization: `Bearer ${API_KEY}` } });
  const locker = await database.pool.connect();
  try {
    await locker.query('begin; lock table step in access exclusive mode');
    const answers = Promise.all([ask(), ask()]);
    await expect.poll(() => arrived).toBe(2);
    await locker.query('rollback');
    expect((await answers).map(({ statusCode }) => statusCode)).toEqual([200, 200]);
    expect(begun).toBe(1);
    expect((await ask()).json()).toMatchObject({ ok: true, violations: [] });
    expect(begun).toBe(2);
  } finally {
    locker.release(true);
    await app.close();
    await auditPool.end();
  }
});
