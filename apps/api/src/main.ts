import { join } from 'node:path';
import { NightshiftError } from '@nightshift/agent-core';
import { assertUsable, connect } from '@nightshift/db';
import { checkQueue, openBell } from '@nightshift/queue';
import {
  AUDIT_STATEMENT_MS,
  checkRedis,
  createPool,
  createShutdown,
  openProcessLog,
  startFailure,
} from '@nightshift/services';
import { keepApiKey } from './api-key.ts';
import { readConfig, type Config } from './config.ts';
import { readDisk } from './disk.ts';
import { buildServer } from './server.ts';

/** Longest time from a signal to the end. Unit: milliseconds. */
const SHUTDOWN_MS = 20_000;

try {
  await start(readConfig());
} catch (error) {
  // Do not wait for hanging connections.
  console.error(error instanceof NightshiftError ? error.message : startFailure(error));
  process.exit(1);
}

async function start(config: Config): Promise<void> {
  const apiKey =
    config.apiKey === null
      ? await keepApiKey(config.dataDir)
      : ({ key: config.apiKey, isNew: false } as const);
  const pool = createPool({ url: config.databaseUrl, applicationName: 'nightshift-api', max: 20 });
  const db = connect(pool);
  const auditDb = connect(
    createPool({
      url: config.databaseUrl,
      applicationName: 'nightshift-api-audit',
      max: 1,
      statementTimeoutMs: AUDIT_STATEMENT_MS,
    }),
  );
  try {
    await assertUsable(db, config.databaseUrl);
  } catch (error) {
    await db.destroy();
    throw error;
  }
  // The bell may report errors before the log exists.
  const early: Error[] = [];
  let warn = (error: Error): void => void early.push(error);
  const bell = await openBell({ queueUrl: config.queueUrl, onError: (error) => warn(error), checkRedis });
  const log = openProcessLog();
  const app = buildServer({
    db,
    auditDb,
    bell,
    queue: { backend: bell.backend, check: () => checkQueue(config.queueUrl, { checkRedis }) },
    disk: () => readDisk(config.dataDir, config.databaseUrl),
    apiKey: apiKey.key,
    model: config.model,
    prices: config.prices,
    secretsKeys: config.secretsKeys,
    toolsAllowPrivate: config.toolsAllowPrivate,
    bodyBytesMax: config.bodyBytesMax,
    eventStreamsMax: config.eventStreamsMax,
    databaseUrl: config.databaseUrl,
    dashboardDir: join(import.meta.dirname, '../../dashboard/dist'),
    logger: { level: config.logLevel, stream: log },
    logStatus: () => log.status(),
  });
  warn = (error) => app.log.warn({ err: error }, 'bell');
  early.forEach(warn);
  // Lines that are logged at any LOG_LEVEL, because the starter of the API waits for them.
  const always = app.log.child({}, { level: 'info' });

  const stop = async (): Promise<void> => {
    // Readiness turns false first; then active requests end.
    await app.close();
    await bell.close();
    await Promise.all([db.destroy(), auditDb.destroy()]);
  };
  const shutdown = createShutdown();
  const onSignal = (): void => {
    const outcome = shutdown.request();
    if (outcome === 'at once') process.exit(1);
    if (outcome === 'again') return;
    const deadline = setTimeout(() => process.exit(1), SHUTDOWN_MS);
    deadline.unref();
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        app.log.error({ err: error }, 'shutdown');
        process.exit(1);
      },
    );
  };
  // A second signal ends the process at once. Within a second it counts as a duplicate of the first.
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);

  try {
    const address = await app
      .listen({ host: config.host, port: config.port })
      .catch((error: unknown) => refuseAddress(config, error as Error));
    always.info(`Nightshift API at ${address}, model: ${config.model}`);
    // Not earlier: standard input would keep an API alive that cannot listen.
    if (config.exitWithParent) {
      // A parent's end during a shutdown is no second shutdown request.
      const onEnd = (): void => (shutdown.isRequested() ? undefined : onSignal());
      process.stdin.once('end', onEnd).resume();
    }
    // Omit the key, because logs are collected.
    if (apiKey.isNew) always.info(`An API key was created: it is in ${apiKey.path}`);
  } catch (error) {
    await stop();
    throw error;
  }
}

function refuseAddress({ host, port }: Config, error: Error): never {
  if (!('syscall' in error)) throw error;
  throw new NightshiftError(
    'bad_configuration',
    `The API cannot listen at HOST ${host}, PORT ${port}: ${error.message}.`,
  );
}
