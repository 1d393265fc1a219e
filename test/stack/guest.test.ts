import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { openTestDatabase, type TestDatabase } from '../../libs/db/src/testing/index.ts';
import { createPool } from '../../libs/services/src/index.ts';
import { storeAgents } from '../../scripts/stack/agents.ts';
import { refuseOthers } from '../../scripts/stack/guest.ts';

let database: TestDatabase;
const storeTwo = (tag: string): Promise<unknown> =>
  storeAgents(database.db, 2, [], (place) => ({ name: `agent ${place}`, system: '', tags: [tag] }));
beforeEach(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterEach(() => database.close());

/** Counts agents and batches, and reads the credential's kind. */
async function content(): Promise<unknown> {
  const { rows } = await database.pool.query(
    `select (select count(*)::int from agent) as agents, (select count(*)::int from batch) as batches,
            (select simulated from credential where name = 'default') as simulated`,
  );
  return rows;
}

test('the demo refuses a database with agents of others', async () => {
  await storeTwo('demo-customers');
  const before = await content();
  const dir = mkdtempSync(join(tmpdir(), 'nightshift-guest-'));
  try {
    const { status, stderr } = spawnSync(
      process.execPath,
      [join(import.meta.dirname, '../../scripts/demo.ts')],
      {
        cwd: dir,
        encoding: 'utf8',
        env: { ...process.env, DATABASE_URL: database.url, DATA_DIR: dir, PORT: '' },
      },
    );
    expect(status).toBe(1);
    expect(stderr).toMatch(
      new RegExp(
        `^Starting .*\nThe database of DATABASE_URL holds 2 agents that npm run demo has not made\\. Give .*\n$`,
      ),
    );
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
  expect(await content()).toEqual(before);
});

test("a database with the demo's agents only, or without tables, is accepted", async () => {
  await storeTwo('demo-mwxzmsix');
  await refuseOthers(database.pool);
  await database.pool.query('drop schema public cascade; create schema public');
  await refuseOthers(database.pool);
});

test.each(['nightshift-worker worker-1', 'nightshift-api'])(
  'a database with an active %s is refused, even without agents',
  async (applicationName) => {
    await refuseOthers(database.pool);
    const other = createPool({ url: database.url, max: 1, applicationName });
    try {
      await other.query('select 1');
      await expect(refuseOthers(database.pool)).rejects.toThrow(
        /^An API or workers are at work in the database of DATABASE_URL\. Give npm run demo a database of its own/,
      );
    } finally {
      await other.end();
    }
  },
);
