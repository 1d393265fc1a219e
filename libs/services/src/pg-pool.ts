import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import pg from 'pg';

export interface PoolOptions {
  readonly url: string;
  /** Shown in pg_stat_activity; default `nightshift`. */
  readonly applicationName?: string;
  /** Connections at most; default 10. */
  readonly max?: number;
  /** The server gives up on a statement after this; default {@link STATEMENT_MS}. */
  readonly statementTimeoutMs?: number;
  /** How much longer than the server this side waits for an answer before it takes the network for dead; default 5,000. */
  readonly answerGraceMs?: number;
  /** The server gives up waiting for a lock after this; default 15,000. */
  readonly lockTimeoutMs?: number;
  /** The server ends a session whose open transaction has been silent for this long; default 60,000. */
  readonly idleInTransactionTimeoutMs?: number;
  /** How long a caller waits for a free or a new connection; default 30,000. */
  readonly connectionTimeoutMs?: number;
  /** Told of every connection that was cut, idle or in use. The next query on it rejects; nobody needs to act. */
  readonly onConnectionError?: (error: Error) => void;
}

/** Milliseconds for a statement, unless something else is said of its pool. */
export const STATEMENT_MS = 60_000;
/** Milliseconds for a statement of an audit, which reads whole tables. */
export const AUDIT_STATEMENT_MS = 30 * 60_000;
/** Milliseconds for a statement of a migration: one that is ended for its length will never be done. */
export const MIGRATION_STATEMENT_MS = 24 * 3_600_000;

const INT8 = 20;
const INT8_ARRAY = 1016;
const UUID_ARRAY = 2951;
/** Whatever the role or the database is set to: what the parsing below counts on, and that a confirmed commit survives a crash. */
const SESSION = ['-c timezone=UTC', '-c datestyle=ISO', '-c synchronous_commit=on'];
/** An array of uuids as Postgres writes it: one dimension, not empty, no null. */
const UUIDS = /^\{[0-9a-f,-]+\}$/;

/**
 * A connection pool that survives cut connections and never waits for ever.
 *
 * - A connection that the server or the network cuts, even amid an open transaction, makes the next query on it reject;
 *   it is never an uncaught error. The pool drops it once its socket is closed, a moment after the server's last word.
 * - A connection that is silent for longer than the server takes over any statement is closed, and what was asked on it
 *   rejects with `Query read timeout`: nobody knows whether it was done, nor what a late answer would be an answer to.
 * - A connection that is given back with a transaction open is closed, which rolls it back: it serves nobody else.
 * - `int8` and `int8[]` arrive as numbers; a value beyond 2^53 rejects the query instead of losing digits. `numeric`
 *   stays a string, `timestamptz` is a `Date`; sessions run in UTC and write dates as ISO has them.
 * - A commit that the server has confirmed survives its crash.
 * - `await pool.end()` before the server stops.
 */
export function createPool(options: PoolOptions): pg.Pool {
  const { statementTimeoutMs = STATEMENT_MS, answerGraceMs = 5_000 } = options;
  const pool = new pg.Pool({
    // Options in the URL win over the pool's, so ours are added to them there.
    connectionString: options.url.replace(
      /[?&]options=[^&#]*/g,
      (given) => `${given}%20${encodeURIComponent(SESSION.join(' '))}`,
    ),
    application_name: options.applicationName ?? 'nightshift',
    max: options.max ?? 10,
    statement_timeout: statementTimeoutMs,
    lock_timeout: options.lockTimeoutMs ?? 15_000,
    idle_in_transaction_session_timeout: options.idleInTransactionTimeoutMs ?? 60_000,
    connectionTimeoutMillis: options.connectionTimeoutMs ?? 30_000,
    options: SESSION.join(' '),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: columnTypes(),
  });
  const report = options.onConnectionError ?? (() => undefined);
  // Two listeners, because the pool listens only to connections that lie idle in it.
  pool.on('error', report);
  pool.on('connect', (client) => {
    client.on('error', report);
    if (statementTimeoutMs > 0) closeWhenSilent(client, statementTimeoutMs + answerGraceMs);
  });
  // Told before the pool looks whether it may keep the client.
  pool.on('release', (_error, client) => {
    const status = client.getTransactionStatus();
    // None yet: it was made for a caller who no longer waits, and is as good for the next.
    if (status !== null && status !== 'I') void client.end();
  });
  return pool;
}

/**
 * Instead of the driver's `query_timeout`, which rejects the query and leaves the connection as it is: in the pool, perhaps
 * dead, perhaps about to carry out what it was given up for.
 */
function closeWhenSilent(client: pg.PoolClient, silenceMs: number): void {
  // Where the driver notes that the server has answered all it was asked; its types leave it out.
  const answered: { readonly readyForQuery?: boolean } = client as object;
  const socket = client.connection.stream as Duplex & Pick<Socket, 'setTimeout'>;
  socket.setTimeout(silenceMs);
  // Each time: a callback of `setTimeout` is asked once, and a connection may be silent for want of questions first.
  socket.on('timeout', () => {
    if (answered.readyForQuery !== true) socket.destroy(new Error('Query read timeout'));
  });
}

function columnTypes(): pg.CustomTypesConfig {
  const types = new pg.TypeOverrides();
  const int8Array = types.getTypeParser(INT8_ARRAY, 'text') as unknown as (text: string) => unknown;
  types.setTypeParser(INT8, safeInteger);
  types.setTypeParser(INT8_ARRAY, (text) => safeIntegers(int8Array(text)));
  // Chunks of runs are thousands of uuids, which the driver puts together letter by letter.
  const uuidArray = types.getTypeParser(UUID_ARRAY, 'text') as unknown as (text: string) => unknown;
  types.setTypeParser(UUID_ARRAY, (text) =>
    UUIDS.test(text) ? text.slice(1, -1).split(',') : uuidArray(text),
  );
  return types;
}

/** @throws {RangeError} when a number cannot hold the value exactly. */
function safeInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value))
    throw new RangeError(
      `The database returned the integer ${text}, which a number cannot hold; select it as ::text.`,
    );
  return value;
}

function safeIntegers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(safeIntegers);
  return typeof value === 'string' ? safeInteger(value) : value;
}
