import { connect, migrateToLatest } from '../libs/db/src/index.ts';
import { checkQueue } from '../libs/queue/src/index.ts';
import { checkPostgres, checkRedis, createPool, MIGRATION_STATEMENT_MS } from '../libs/services/src/index.ts';
import { endWith, given, readCommandLine } from './command-line.ts';

// Migrates the database to this release. A queue has no schema, so it is only checked.
readCommandLine({
  name: 'migrate',
  what: 'Checks the queue of QUEUE_URL and brings the database of DATABASE_URL to this release.',
  takes: 'seconds; longer where a large table is changed',
  flags: {},
});
await migrate(given('DATABASE_URL'), given('QUEUE_URL') ?? 'none').catch(endWith);

async function migrate(url: string | undefined, queueUrl: string): Promise<void> {
  if (url === undefined) throw new Error('Set DATABASE_URL to the Postgres that is to be migrated.');
  await checkPostgres(url);
  await checkQueue(queueUrl, { checkRedis });
  const pool = createPool({
    url,
    max: 2,
    applicationName: 'nightshift-migrate',
    statementTimeoutMs: MIGRATION_STATEMENT_MS,
  });
  const applied = await migrateToLatest(connect(pool));
  await pool.end();
  console.log(applied.length === 0 ? 'The database is up to date.' : `Applied: ${applied.join(', ')}.`);
}
