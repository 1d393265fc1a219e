import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { PAUSE_REASONS } from '@nightshift/agent-core';
import { haltCredential, pauseCredential } from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

/** Returns the last line of `npm run audit -- --resume`. */
function resume(): string | undefined {
  const { stderr } = spawnSync(process.execPath, ['scripts/audit.ts', '--resume'], {
    cwd: join(import.meta.dirname, '../..'),
    encoding: 'utf8',
    env: { ...process.env, DATABASE_URL: database.url },
  });
  return stderr.split('\n')[1];
}

test('--resume names the halt or the refused key that it ended, and keeps a pause that the provider asked for', async () => {
  const { db, pool } = database;
  expect(resume()).toBe('Submissions were not halted.');
  await haltCredential(db, 'default', 'I2, a promise');
  expect(resume()).toBe(
    'Submissions resume within a few seconds. The reason was: halted by the audit: I2, a promise.',
  );
  await pauseCredential(db, 'default', 300_000, PAUSE_REASONS.unauthorized);
  expect(resume()).toBe(
    'Submissions resume within a few seconds. The reason was: the provider refuses the key.',
  );
  expect(resume()).toBe('Submissions were not halted.');
  await pauseCredential(db, 'default', 300_000, PAUSE_REASONS.rate_limited);
  expect(resume()).toMatch(/^Submissions stay paused until \d{4}-.+Z: the provider limits the rate\.$/);
  await haltCredential(db, 'default', 'I9, a promise');
  await pool.query(`insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at)
    select gen_random_uuid(), project_id, name, 'building', 'abcdef', 1, app_now() from credential`);
  expect(resume()).toBe('Submissions stay halted: a violation touches money.');
  expect((await pool.query(`select 1 from credential where paused_until = 'infinity'`)).rowCount).toBe(1);
});
