import { connect, migrateToLatest } from '../libs/db/src/index.ts';
import { prepareQueue } from '../libs/queue/src/index.ts';
import { checkRedis, createPool, MIGRATION_STATEMENT_MS } from '../libs/services/src/index.ts';

// Brings the database and the queue to this release: our migrations and BullMQ's own, in one step.
const url = process.env.DATABASE_URL;
if (url === undefined || url === '')
  throw new Error('Set DATABASE_URL to the Postgres that is to be migrated.');
const pool = createPool({
  url,
  max: 2,
  applicationName: 'nightshift-migrate',
  statementTimeoutMs: MIGRATION_STATEMENT_MS,
});
const applied = await migrateToLatest(connect(pool));
await pool.end();
await prepareQueue(process.env.QUEUE_URL ?? 'none', { checkRedis });
console.log(applied.length === 0 ? 'The database is up to date.' : `Applied: ${applied.join(', ')}.`);
