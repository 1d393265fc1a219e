import type {} from '../global-setup.ts';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assertUsable, connect, inTransaction } from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { sql } from 'kysely';
import pg from 'pg';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { explainDenied } from '../../libs/db/src/grants.ts';
import { createPool } from '../../libs/services/src/index.ts';

const ROOT = join(import.meta.dirname, '../..');
const PASSWORD = 'of-a-bare-role';

let database: TestDatabase;
let dir: string;
let role: string;
/** The database URL of the role without rights. */
let url: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-rights-'));
  database = await openTestDatabase(inject('postgresUrl'));
  role = `bare_${randomBytes(6).toString('hex')}`;
  await database.pool.query(`create role ${role} login password '${PASSWORD}'`);
  url = Object.assign(new URL(database.url), { username: role, password: PASSWORD }).href;
});
afterEach(async () => {
  await database.pool.query(`drop owned by ${role}; drop role ${role}`);
  await database.close();
  await rm(dir, { recursive: true, force: true });
});

const PROGRAMS = {
  API: 'apps/api/src/main.ts',
  worker: 'apps/worker/src/main.ts',
  migrate: 'scripts/migrate.ts',
  audit: 'scripts/audit.ts',
} as const;

/** Starts a program as the role. Returns its exit code and output. */
function run(program: keyof typeof PROGRAMS, databaseUrl = url): { status: number | null; said: string } {
  const { PATH = '', NODE_COMPILE_CACHE = '' } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAMS[program]], {
    cwd: ROOT,
    encoding: 'utf8',
    env: {
      ...{ PATH, NODE_COMPILE_CACHE },
      DATABASE_URL: databaseUrl,
      DATA_DIR: dir,
      PORT: '0',
      ANTHROPIC_API_KEY: 'test-key',
    },
  });
  return { status, said: stdout + stderr };
}

/** The result of a refusal in one line. */
const refusal = (sentence: string): unknown => ({ status: 1, said: `${sentence}\n` });

const GRANTS = 'grant select, insert, update, delete on all tables in schema public to';

test('a role without rights gets its grant from API, worker, migrate and audit, in one sentence', async () => {
  const others = `table "agent" and 65 more. Run as their owner:`;
  const all = refusal(
    `The role "${role}" may not SELECT, INSERT, UPDATE, DELETE on ${others} ${GRANTS} "${role}";`,
  );
  expect(run('API')).toEqual(all);
  expect(run('worker')).toEqual(all);
  expect(run('audit')).toEqual(
    refusal(
      `The role "${role}" may not SELECT on ${others} grant select on all tables in schema public to "${role}";`,
    ),
  );
  const create = `Run as its owner: grant usage, create on schema public to "${role}";`;
  expect(run('migrate')).toEqual(refusal(`The role "${role}" may not CREATE in schema public. ${create}`));
});

test('a single missing right is reported with its table, and nothing once it is granted', async () => {
  await database.pool.query(`${GRANTS} ${role}; revoke insert, update on step from ${role}`);
  const grant = `grant insert, update on table public."step" to "${role}";`;
  const sentence = `The role "${role}" may not INSERT, UPDATE on table "step". Run as their owner: ${grant}`;
  expect(run('API')).toEqual(refusal(sentence));
  expect(run('audit')).toMatchObject({ status: 0 });
  await database.pool.query(grant);
  await expect(assertUsableAs(url)).resolves.toBeUndefined();
  await database.pool.query('revoke usage on schema public from public');
  await expect(assertUsableAs(url)).rejects.toThrow(
    `The role "${role}" may not use schema public. Run as its owner:`,
  );
});

test('a role that may create tables but does not own the existing tables is told the owner', async () => {
  const { username: owner } = new URL(database.url);
  await database.pool.query(`${GRANTS} ${role}; grant create on schema public to ${role}`);
  const db = connect(createPool({ url, max: 1 }));
  const denied = await sql`alter table agent add spare text`.execute(db).catch((error: unknown) => error);
  await expect(explainDenied(db, denied)).resolves.toMatchObject({
    message: expect.stringMatching(
      new RegExp(`^The role "${role}" does not own table "agent", .* Migrate as "${owner}", or .*;$`),
    ),
  });
  await db.destroy();
});

async function assertUsableAs(place: string, pool = createPool({ url: place, max: 2 })): Promise<void> {
  const db = connect(pool);
  try {
    await assertUsable(db, place);
  } finally {
    await db.destroy();
  }
}

test("commits are durable whatever the role's default, inside and outside of transactions", async () => {
  await database.pool.query(`${GRANTS} ${role}; alter role ${role} set synchronous_commit = off`);
  for (const place of [
    url,
    `${url}${url.includes('?') ? '&' : '?'}options=-c%20synchronous_commit%3Dlocal`,
  ]) {
    const db = connect(createPool({ url: place, max: 1 }));
    const shown = sql<{ synchronous_commit: string }>`show synchronous_commit`;
    const inside = await inTransaction(db, (trx) => shown.execute(trx));
    const outside = await shown.execute(db);
    expect([...inside.rows, ...outside.rows]).toEqual([
      { synchronous_commit: 'on' },
      { synchronous_commit: 'on' },
    ]);
    await db.destroy();
    await expect(assertUsableAs(place)).resolves.toBeUndefined();
  }
  // Without start parameters, as behind a pooler that drops them.
  const bare = (): pg.Pool => new pg.Pool({ connectionString: url });
  await expect(assertUsableAs(url, bare())).rejects.toThrow(
    new RegExp(
      `^Sessions have synchronous_commit = off, .* Run: alter role "${role}" set synchronous_commit = on;$`,
    ),
  );
  await database.pool.query(`alter role ${role} set synchronous_commit = on`);
  await expect(assertUsableAs(url, bare())).resolves.toBeUndefined();
});

test('a misspelt DATABASE_URL is refused by every program without its password', () => {
  for (const typo of ['postgres:/u:S3CRET@h', 'postgres://u:1/S3CRET@h']) {
    for (const program of Object.keys(PROGRAMS) as (keyof typeof PROGRAMS)[]) {
      const { status, said } = run(program, typo);
      expect({ program, status, lines: said.split('\n').length, isShown: said.includes('S3CRET') }).toEqual({
        program,
        status: 1,
        lines: 2,
        isShown: false,
      });
    }
  }
});
