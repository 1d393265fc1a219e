import { connect, migrateToLatest } from '../libs/db/src/index.ts';
import { checkQueue, prepareQueue } from '../libs/queue/src/index.ts';
import { checkPostgres, checkRedis, createPool, MIGRATION_STATEMENT_MS } from '../libs/services/src/index.ts';
import { endWith, given, readCommandLine } from './command-line.ts';

// Brings the database and the queue to this release: our migrations and BullMQ's own, in one step.
readCommandLine({
  name: 'migrate',
  what: 'Brings the database of DATABASE_URL and the queue of QUEUE_URL to this release.',
  takes: 'seconds; longer where a large table is changed',
  flags: {},
});
await migrate(given('DATABASE_URL'), given('QUEUE_URL') ?? 'none').catch(endWith);

async function migrate(url: string | undefined, queueUrl: string): Promise<void> {
  if (url === undefined) throw new Error('Set DATABASE_URL to the Postgres that is to be migrated.');
  await checkPostgres(url);
  // Before anything is changed, as far as that can tell: whether the role may make the queue's tables shows when it does.
  await checkQueue(queueUrl, { checkRedis });
  const pool = createPool({
    url,
    max: 2,
    applicationName: 'nightshift-migrate',
    statementTimeoutMs: MIGRATION_STATEMENT_MS,
  });
  const applied = await migrateToLatest(connect(pool));
  await pool.end();
  await prepareQueue(queueUrl, { checkRedis });
  console.log(applied.length === 0 ? 'The database is up to date.' : `Applied: ${applied.join(', ')}.`);
}
