import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import pg from 'pg';

export interface PoolOptions {
  readonly url: string;
  /** Name in pg_stat_activity. Default: `nightshift`. */
  readonly applicationName?: string;
  /** Maximum connections. Default: 10. */
  readonly max?: number;
  /** Server-side timeout of a statement. Default: {@link STATEMENT_MS}. */
  readonly statementTimeoutMs?: number;
  /** Further wait for an answer after the statement timeout, before the connection counts as dead. Default: 5,000 ms. */
  readonly answerGraceMs?: number;
  /** Server-side timeout of a wait for a lock. Default: 15,000 ms. */
  readonly lockTimeoutMs?: number;
  /** Server-side timeout of an idle open transaction. Default: 60,000 ms. */
  readonly idleInTransactionTimeoutMs?: number;
  /** Maximum wait for a free or new connection. Default: 30,000 ms. */
  readonly connectionTimeoutMs?: number;
  /** Receives the error of each cut connection, idle or in use. The next query on it rejects; no action is needed. */
  readonly onConnectionError?: (error: Error) => void;
}

/** Default timeout of a statement. Unit: ms. */
export const STATEMENT_MS = 60_000;
/** Timeout of an audit's statement, which reads whole tables. Unit: ms. */
export const AUDIT_STATEMENT_MS = 30 * 60_000;
/** Timeout of a migration's statement, so long that a slow migration can complete. Unit: ms. */
export const MIGRATION_STATEMENT_MS = 24 * 3_600_000;

const INT8 = 20;
const INT8_ARRAY = 1016;
const UUID_ARRAY = 2951;
/** Settings that override those of role and database: date formats for the parsers below, and durable commits. */
const SESSION = ['-c timezone=UTC', '-c datestyle=ISO', '-c synchronous_commit=on'];
/** An array of uuids in Postgres's text format: one dimension, not empty, without nulls. */
const UUIDS = /^\{[0-9a-f,-]+\}$/;

/**
 * Creates a connection pool that survives cut connections and never hangs.
 *
 * - A cut connection, even inside a transaction, rejects the next query on it; it never causes an uncaught error. The pool
 *   drops it once its socket is closed.
 * - A connection that is silent beyond the statement timeout is closed, and its query rejects with `Query read timeout`.
 *   Whether the statement was carried out is then unknown, and a late answer could be mistaken for a later one's.
 * - A connection released with an open transaction is closed, which rolls the transaction back.
 * - `int8` and `int8[]` arrive as numbers; a value beyond 2^53 rejects the query. `numeric` stays a string, and `timestamptz`
 *   is a `Date`; sessions use UTC and ISO dates.
 * - A confirmed commit survives a crash of the server.
 * - The caller must await `pool.end()` before the server stops.
 */
export function createPool(options: PoolOptions): pg.Pool {
  const { statementTimeoutMs = STATEMENT_MS, answerGraceMs = 5_000 } = options;
  const pool = new pg.Pool({
    // Options in the URL override the pool's, so ours are appended to them.
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
  // Two listeners, because the pool itself listens only to idle connections.
  pool.on('error', report);
  pool.on('connect', (client) => {
    client.on('error', report);
    if (statementTimeoutMs > 0) closeWhenSilent(client, statementTimeoutMs + answerGraceMs);
  });
  // This event precedes the pool's check whether to keep the client.
  pool.on('release', (_error, client) => {
    const status = client.getTransactionStatus();
    // Null: the connection is new, its caller has timed out, and the next caller can use it.
    if (status !== null && status !== 'I') void client.end();
  });
  return pool;
}

/**
 * Closes a connection whose query gets no answer. The driver's `query_timeout` would only reject the query and leave the
 * connection in the pool, dead or still executing the statement.
 */
function closeWhenSilent(client: pg.PoolClient, silenceMs: number): void {
  // The driver's flag for "all queries answered", which its types omit.
  const answered: { readonly readyForQuery?: boolean } = client as object;
  const socket = client.connection.stream as Duplex & Pick<Socket, 'setTimeout'>;
  socket.setTimeout(silenceMs);
  // By `on`, since the callback of `setTimeout` fires only once, and the first timeout may hit an idle connection.
  socket.on('timeout', () => {
    if (answered.readyForQuery !== true) socket.destroy(new Error('Query read timeout'));
  });
}

function columnTypes(): pg.CustomTypesConfig {
  const types = new pg.TypeOverrides();
  const int8Array = types.getTypeParser(INT8_ARRAY, 'text') as unknown as (text: string) => unknown;
  types.setTypeParser(INT8, safeInteger);
  types.setTypeParser(INT8_ARRAY, (text) => safeIntegers(int8Array(text)));
  // The driver parses arrays character by character, which is slow for chunks of thousands of uuids.
  const uuidArray = types.getTypeParser(UUID_ARRAY, 'text') as unknown as (text: string) => unknown;
  types.setTypeParser(UUID_ARRAY, (text) =>
    UUIDS.test(text) ? text.slice(1, -1).split(',') : uuidArray(text),
  );
  return types;
}

/**
 * Converts an integer to a number.
 * Throws: `RangeError` when a number cannot hold the value exactly.
 */
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
