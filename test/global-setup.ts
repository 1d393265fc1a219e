import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { directoryOwner, providePostgres } from '../libs/services/src/index.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A superuser's URL of an empty PostgreSQL, one per test run; tests make databases of their own in it. */
    postgresUrl: string;
  }
}

const PREFIX = 'nightshift-test-';

/**
 * Starts the one PostgreSQL of the run, or uses the server that TEST_DATABASE_URL names. With NIGHTSHIFT_USE_DOCKER=1 it is
 * a container where a Docker engine answers.
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
    return () => Promise.resolve();
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

/** Milliseconds since a sign of life after which a directory was left by somebody. */
const STALE_MS = 60_000;

/** Data directories of runs that were killed before they could remove them; a young one may just have been made. */
function removeLeftovers(): void {
  for (const name of readdirSync(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const directory = join(tmpdir(), name);
    try {
      if (Date.now() - lastTouched(directory) < STALE_MS || directoryOwner(directory, 0) !== null) continue;
      rmSync(directory, { recursive: true, force: true });
    } catch {
      // Somebody else's: not ours to judge.
    }
  }
}

/** When the owner last said that it lives, or the directory was made; in milliseconds since the epoch. */
function lastTouched(directory: string): number {
  const lock = statSync(join(directory, 'owner.lock'), { throwIfNoEntry: false });
  return (lock ?? statSync(directory)).mtimeMs;
}
