import { randomUUIDv7 } from 'node:crypto';
import { clearLowBits, CONVERSATION_FREE_BITS, RUN_FREE_BITS } from '@nightshift/agent-core';
import { Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import type pg from 'pg';
import { judgeError } from './judge-error.ts';
import type { DB } from './tables.ts';

export type Database = Kysely<DB>;
export type Tx = Transaction<DB>;

/** The project of all rows until there are more projects. */
export const DEFAULT_PROJECT_ID = '00000000-0000-4000-8000-000000000000';

/** Opens Kysely over a pool made by `createPool`, which sets timeouts and survives cut connections. */
export function connect(pool: pg.Pool): Database {
  const db = new Kysely<DB>({ dialect: new PostgresDialect({ pool }) });
  pools.set(db, pool);
  return db;
}

const pools = new WeakMap<Database, pg.Pool>();

/** Returns the pool of a database, for COPY, which Kysely does not know. Throws: for a transaction. */
export function poolOf(db: Database): pg.Pool {
  const pool = pools.get(db);
  if (pool === undefined) throw new Error('Only a database that was opened by `connect` has a pool.');
  return pool;
}

/** Creates a UUIDv7. Not monotonic within a millisecond: page by (created_at, id). */
export function newId(): string {
  return randomUUIDv7();
}

/** Creates a run id with 24 zero low bits, which number its steps. */
export function newRunId(): string {
  return clearLowBits(randomUUIDv7(), RUN_FREE_BITS);
}

/** Creates a conversation id with 31 zero low bits, which number its messages. */
export function newConversationId(): string {
  return clearLowBits(randomUUIDv7(), CONVERSATION_FREE_BITS);
}

/** Maximum tries of a transaction that fails for a transient reason. */
const TRIES_MAX = 6;

/**
 * Runs `work` in one transaction, opened by flows, routes or program starts; it must not wait for the network.
 * A deadlock, a serialization failure or a lock timeout repeats it, so `work` must build all its values inside. A lost
 * connection, also at the commit, is thrown to the caller.
 */
export async function inTransaction<T>(db: Database, work: (trx: Tx) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await db.transaction().execute(work);
    } catch (error) {
      if (attempt === TRIES_MAX || judgeError(error) !== 'again') throw error;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20 * 2 ** attempt));
    }
  }
}

/**
 * Runs reads in one read-only transaction, in which each statement, with its waits for locks, takes at most `timeoutMs`.
 * Throws: the error of the first statement that fails or times out; nothing is repeated.
 */
export async function readWithin<T>(
  db: Database,
  timeoutMs: number,
  read: (trx: Tx) => Promise<T>,
): Promise<T> {
  return db
    .transaction()
    .setAccessMode('read only')
    .execute(async (trx) => {
      await sql`select set_config('statement_timeout', ${String(timeoutMs)}, true)`.execute(trx);
      return read(trx);
    });
}

/** Runs `work` like {@link inTransaction}, returns its result, and undoes its writes. */
export async function inUndoneTransaction<T>(db: Database, work: (trx: Tx) => Promise<T>): Promise<T> {
  let result: { readonly of: T } | undefined;
  try {
    await inTransaction(db, async (trx) => {
      result = { of: await work(trx) };
      throw UNDO;
    });
  } catch (error) {
    if (error !== UNDO) throw error;
  }
  if (result === undefined) throw UNDO;
  return result.of;
}

const UNDO = new Error('The transaction is undone on purpose.');

/** Reads the database's time, the only clock for decisions about rows. */
export async function readNow(db: Database): Promise<Date> {
  const { now } = await db.selectNoFrom((eb) => eb.fn<Date>('app_now').as('now')).executeTakeFirstOrThrow();
  return now;
}

/** True when the database accepts writes; false on a standby or in read-only mode. */
export async function takesWrites(db: Database): Promise<boolean> {
  const { rows } = await sql<{ takes_writes: boolean }>`
    select not (pg_is_in_recovery() or current_setting('transaction_read_only')::boolean) as takes_writes
  `.execute(db);
  return rows[0]?.takes_writes ?? false;
}
