import { randomUUIDv7 } from 'node:crypto';
import { clearLowBits, CONVERSATION_FREE_BITS, RUN_FREE_BITS } from '@nightshift/agent-core';
import { Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import type pg from 'pg';
import { judgeError } from './judge-error.ts';
import type { DB } from './tables.ts';

export type Database = Kysely<DB>;
export type Tx = Transaction<DB>;

/** The project that everything belongs to until there are more. */
export const DEFAULT_PROJECT_ID = '00000000-0000-4000-8000-000000000000';

/** Kysely over a pool made by `createPool` (which sets time limits and survives cut connections). */
export function connect(pool: pg.Pool): Database {
  return new Kysely<DB>({ dialect: new PostgresDialect({ pool }) });
}

/** A new UUIDv7. Not monotonic within a millisecond: page by (created_at, id). */
export function newId(): string {
  return randomUUIDv7();
}

/** A new id for a run: its low 24 bits are zero, its steps are numbered there. */
export function newRunId(): string {
  return clearLowBits(randomUUIDv7(), RUN_FREE_BITS);
}

/** A new id for a conversation: its low 31 bits are zero, its messages are numbered there. */
export function newConversationId(): string {
  return clearLowBits(randomUUIDv7(), CONVERSATION_FREE_BITS);
}

/** Times that a transaction is tried which the database undid for a reason that passes. */
const TRIES_MAX = 6;

/**
 * Runs `work` in one transaction. Opened in flows and routes, and where a program starts; nothing in it may wait for the
 * network. A deadlock, a serialisation failure or a lock time-out undoes it and it runs again, so `work` may run several times:
 * whatever it builds must be built inside. A connection that is lost, at the commit too, is the caller's to judge.
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

/** The database's time, the only clock that rows are judged by. */
export async function readNow(db: Database): Promise<Date> {
  const { now } = await db.selectNoFrom((eb) => eb.fn<Date>('app_now').as('now')).executeTakeFirstOrThrow();
  return now;
}

/** Whether the database takes writes: a standby does not, nor one that is set to be read-only. */
export async function takesWrites(db: Database): Promise<boolean> {
  const { rows } = await sql<{ takes_writes: boolean }>`
    select not (pg_is_in_recovery() or current_setting('transaction_read_only')::boolean) as takes_writes
  `.execute(db);
  return rows[0]?.takes_writes ?? false;
}
