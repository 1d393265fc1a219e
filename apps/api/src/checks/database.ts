import { isError } from '@nightshift/agent-core';
import {
  assertGranted,
  readDatabaseState,
  readGrowth,
  readMigrations,
  readSlowStatements,
  type Tx,
} from '@nightshift/db';
import { countOf, judge, listOf, sizeOf, spanOf, type CheckFunction } from './judged.ts';

const VERSION_MIN = 15;

/** Checks the server: version, writes, rights of the role. */
export const checkDatabase: CheckFunction<'database'> = async ({ read }) => {
  const { state, missing } = await read(async (db) => ({
    missing: await missingGrant(db),
    state: await readDatabaseState(db),
  }));
  const { version, role, is_superuser, takes_writes, size_bytes } = state;
  const rights = is_superuser ? 'superuser' : 'no superuser';
  return judge<'database'>(
    { version, role, is_superuser, takes_writes, size_bytes },
    `PostgreSQL ${version}, ${sizeOf(size_bytes)}, role "${role}" (${rights}).`,
    [
      version < VERSION_MIN && [
        'failing',
        `The server is PostgreSQL ${version}.`,
        `Move to PostgreSQL ${VERSION_MIN} or newer; 18 is tested most.`,
      ],
      !takes_writes && [
        'failing',
        'The database takes no writes: it is a standby, or read-only.',
        'Let DATABASE_URL name the primary, or set default_transaction_read_only to off.',
      ],
      missing !== null && ['failing', `The role "${role}" lacks a right.`, missing],
    ],
  );
};

/** Returns the sentence about a right that the role lacks; null if it has all. */
async function missingGrant(db: Tx): Promise<string | null> {
  try {
    await assertGranted(db);
    return null;
  } catch (error) {
    if (isError(error, 'database_unreachable')) return error.message;
    throw error;
  }
}

/** Checks that the database has exactly the migrations of this release. */
export const checkMigrations: CheckFunction<'migrations'> = async ({ read }) => {
  const { applied, missing, unknown } = await read(readMigrations);
  return judge<'migrations'>(
    { applied, missing: [...missing], unknown: [...unknown] },
    `All ${applied} migrations are applied.`,
    [
      missing.length > 0 && [
        'failing',
        `The database lacks the migrations ${listOf(missing)}.`,
        'Stop the programs and run the migrate step: node scripts/migrate.ts.',
      ],
      unknown.length > 0 && [
        'failing',
        `The database has the migrations ${listOf(unknown)}, which this release does not know.`,
        'Start the release that added them, for API and workers.',
      ],
    ],
  );
};

/** Free connections below which new programs are refused soon. */
const FREE_MIN = 3;
const FREE_SHARE = 0.2;

/** Checks that the server has connections left. */
export const checkConnections: CheckFunction<'connections'> = async ({ read }) => {
  const { connections: used, connections_max: max } = await read(readDatabaseState);
  const finding = `${used} of ${max} connections are in use.`;
  const advice =
    'Raise max_connections, or run fewer workers or a smaller DATABASE_POOL_MAX. An API takes up to 31, a worker 9.';
  return judge<'connections'>({ used, max }, finding, [
    max - used <= FREE_MIN && ['failing', finding, advice],
    max - used < max * FREE_SHARE && ['warning', finding, advice],
  ]);
};

const SLOW_LISTED = 20;

/** Checks for statements that run long, and transactions left open. */
export const checkStatements: CheckFunction<'statements'> = async ({ read }) => {
  const slow = await read((db) => readSlowStatements(db, SLOW_LISTED));
  const [slowest] = slow;
  const what = slowest?.kind === 'running' ? 'runs a statement' : 'holds an idle transaction';
  return judge<'statements'>({ slow: [...slow] }, 'No statement runs for more than 30 s.', [
    slowest !== undefined && [
      'warning',
      `${slowest.application_name || 'A program without a name'} ${what} for ${spanOf(slowest.seconds)}` +
        `${slow.length > 1 ? `, and ${slow.length - 1} more` : ''}.`,
      `See pid ${slowest.pid} in pg_stat_activity; select pg_terminate_backend(${slowest.pid}) ends it.`,
    ],
  ]);
};

const FREE_BYTES_FAILING = 512_000_000;
const FREE_BYTES_WARNING = 4_000_000_000;
const FREE_SHARE_WARNING = 0.05;
const GROWTH_DAYS = 7;

/** Checks the room on the API's disk, which holds the database if that is embedded. Another server's disk is not seen. */
export const checkDisk: CheckFunction<'disk'> = async ({ read, context }) => {
  const disk = await context.disk();
  const { size_bytes, growth } = await read(async (db) => ({
    ...(await readDatabaseState(db)),
    growth: await readGrowth(db, context.projectId),
  }));
  const details = {
    database_bytes: size_bytes,
    growth_bytes_per_day: growth === null ? null : Math.round(growth),
    holds_database: disk?.holds_database ?? null,
    free_bytes: disk?.free_bytes ?? null,
    total_bytes: disk?.total_bytes ?? null,
  };
  const grows = growth === null ? '' : ` It grows by about ${sizeOf(growth)} a day.`;
  const database = `The database has ${sizeOf(size_bytes)}.${grows}`;
  if (disk === null)
    return judge<'disk'>(details, `${database} The room on its disk cannot be seen from here.`, []);
  const { free_bytes: free, total_bytes: total, holds_database: isDatabase } = disk;
  const place = isDatabase ? 'on the disk of the database' : "below the API's DATA_DIR";
  const finding = `${sizeOf(free)} are free ${place}.`;
  const advice = isDatabase
    ? 'Free space, move the database, or forget old batches: RETENTION_DAYS.'
    : "Free space there: the API's logs need it.";
  const unseen = isDatabase ? '' : ' The disk of the database cannot be seen from here.';
  const days = growth === null || growth <= 0 ? Infinity : free / growth;
  return judge<'disk'>(details, `${database} ${finding}${unseen}`, [
    free < FREE_BYTES_FAILING && ['failing', finding, advice],
    free < Math.min(FREE_BYTES_WARNING, total * FREE_SHARE_WARNING) && ['warning', finding, advice],
    isDatabase &&
      days < GROWTH_DAYS && [
        'warning',
        `${finding} At the growth of the last week it is full in ${countOf(Math.floor(days), 'day')}.`,
        advice,
      ],
  ]);
};
