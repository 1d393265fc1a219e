import { createPool } from '@nightshift/services';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { openRelay, type Relay } from '../../services/test/fixtures/relay.ts';
import { connect, inTransaction, judgeError, type Database } from '../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../src/testing/index.ts';

let database: TestDatabase;
let relay: Relay;
/** Over a single connection through the relay. */
let db: Database;

beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  await sql`create table note (what text not null)`.execute(database.db);
});
afterAll(() => database.close());

beforeEach(async () => {
  await sql`truncate note`.execute(database.db);
  relay = await openRelay(database.url);
  // Silence is detected after three seconds, longer than any other query here.
  const soon = { statementTimeoutMs: 2_000, answerGraceMs: 1_000 };
  db = connect(createPool({ url: relay.url, max: 1, applicationName: 'relayed', ...soon }));
  await sql`select 1`.execute(db);
});
afterEach(async () => {
  await db.destroy();
  relay.close();
});

const write = (where: Database, what: string): Promise<unknown> =>
  sql`insert into note values (${what})`.execute(where);

/** Reads the committed notes through another connection. */
async function notes(): Promise<string[]> {
  const { rows } = await sql<{ what: string }>`select what from note order by what`.execute(database.db);
  return rows.map((row) => row.what);
}

/** Reads the states of the server's sessions from the relay. */
async function sessions(): Promise<string[]> {
  const { rows } = await sql<{ state: string }>`
    select state from pg_stat_activity where application_name = 'relayed' and datname = current_database()
  `.execute(database.db);
  return rows.map((row) => row.state);
}

test('after a connection falls silent, its waiting query and the next query get another connection', async () => {
  relay.silence();
  const lost = inTransaction(db, (trx) => write(trx, 'lost'));
  const waiting = inTransaction(db, (trx) => write(trx, 'waited'));
  await expect(lost).rejects.toThrow('Query read timeout');
  await waiting;
  await inTransaction(db, (trx) => write(trx, 'next'));
  expect(await notes()).toEqual(['next', 'waited']);
});

test('a late begin opens no transaction for other writes', async () => {
  relay.silence();
  await expect(inTransaction(db, (trx) => write(trx, 'lost'))).rejects.toThrow('Query read timeout');
  relay.deliver();
  await write(db, 'halted');
  expect(await notes()).toEqual(['halted']);
  await expect.poll(sessions).toEqual(['idle']);
});

test('a transaction with a lost answer never commits, even if its work continues', async () => {
  const commit = inTransaction(db, async (trx) => {
    await write(trx, 'first');
    relay.silence();
    await write(trx, 'second').catch(() => relay.deliver());
  });
  await expect(commit).rejects.toSatisfy((error) => judgeError(error) === 'later');
  await write(db, 'next');
  await expect.poll(sessions).toEqual(['idle']);
  expect(await notes()).toEqual(['next']);
});

test('a commit without an answer is left to its caller, and may succeed', async () => {
  const commit = inTransaction(db, async (trx) => {
    await write(trx, 'first');
    relay.silence();
  });
  await expect(commit).rejects.toSatisfy((error) => judgeError(error) === 'later');
  relay.deliver();
  await write(db, 'next');
  await expect.poll(notes).toEqual(['first', 'next']);
  await expect.poll(sessions).toEqual(['idle']);
});
