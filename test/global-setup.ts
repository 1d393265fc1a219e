import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { directoryOwner, providePostgres } from '../libs/services/src/index.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A superuser's URL of an empty PostgreSQL, one per test run. Tests create their own databases in it. */
    postgresUrl: string;
  }
}

const PREFIX = 'nightshift-test-';

/**
 * Starts the run's PostgreSQL, or uses the server of TEST_DATABASE_URL. With NIGHTSHIFT_USE_DOCKER=1 it is a container if a
 * Docker engine answers.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stop = await provideDatabase(project);
  // The mutation tester passes a configuration of its own, without variables.
  const { env } = project.config as { readonly env?: Readonly<Record<string, unknown>> };
  const statements = env?.['NIGHTSHIFT_STATEMENTS'];
  return async () => {
    await stop();
    if (typeof statements === 'string') rmSync(statements, { recursive: true, force: true });
  };
}

async function provideDatabase(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env.TEST_DATABASE_URL;
  if (given !== undefined && given !== '') {
    project.provide('postgresUrl', given);
    // A server that is away by then has nothing to drop.
    return () => dropLeftDatabases(given).catch(() => undefined);
  }
  removeLeftovers();
  const dataDir = mkdtempSync(join(tmpdir(), PREFIX));
  const wantsDocker = process.env.NIGHTSHIFT_USE_DOCKER === '1';
  const postgres = await providePostgres({
    dataDir,
    durable: false,
    settings: { max_connections: 300 },
    useDocker: wantsDocker,
    dockerHost: process.env.DOCKER_HOST || undefined,
  });
  if (wantsDocker) console.log(`Tests run on ${postgres.description}.`);
  project.provide('postgresUrl', postgres.url);
  return async () => {
    await postgres.stop();
    rmSync(dataDir, { recursive: true, force: true });
  };
}

/** Drops the databases that the processes of this run have kept for a next test. */
async function dropLeftDatabases(serverUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl });
  client.on('error', () => undefined);
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      `select datname as name from pg_database where starts_with(datname, $1)`,
      [`t_${process.pid}_`],
    );
    for (const { name } of rows) await client.query(`drop database ${name} with (force)`);
  } finally {
    await client.end();
  }
}

/** Milliseconds without a sign of life after which a directory is stale. */
const STALE_MS = 60_000;

/** Removes data directories of killed runs; skips young directories, which may be starting. */
function removeLeftovers(): void {
  for (const name of readdirSync(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const directory = join(tmpdir(), name);
    try {
      if (Date.now() - lastTouched(directory) < STALE_MS || directoryOwner(directory, 0) !== null) continue;
      rmSync(directory, { recursive: true, force: true });
    } catch {
      // Owned by another user: leave it.
    }
  }
}

/** Returns the last sign of life, or the creation time. Unit: milliseconds since the epoch. */
function lastTouched(directory: string): number {
  const lock = statSync(join(directory, 'owner.lock'), { throwIfNoEntry: false });
  return (lock ?? statSync(directory)).mtimeMs;
}
