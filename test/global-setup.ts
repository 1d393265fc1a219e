import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startEmbeddedPostgres } from '../libs/services/src/index.ts';
import { processIdentity } from '../libs/services/src/process-identity.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A superuser's URL of an empty PostgreSQL, one per test run; tests make databases of their own in it. */
    postgresUrl: string;
  }
}

const PREFIX = 'nightshift-test-';

/** Starts the one PostgreSQL of the run, or uses the server that TEST_DATABASE_URL names. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env.TEST_DATABASE_URL;
  if (given !== undefined && given !== '') {
    project.provide('postgresUrl', given);
    return () => Promise.resolve();
  }
  removeLeftovers();
  const dataDir = mkdtempSync(join(tmpdir(), PREFIX));
  const postgres = await startEmbeddedPostgres({
    dataDir,
    durable: false,
    settings: { max_connections: 300 },
  });
  project.provide('postgresUrl', postgres.url);
  return async () => {
    await postgres.stop();
    rmSync(dataDir, { recursive: true, force: true });
  };
}

/** Data directories of runs that were killed before they could remove them. */
function removeLeftovers(): void {
  for (const name of readdirSync(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const directory = join(tmpdir(), name);
    try {
      const owner = readFileSync(join(directory, 'owner.lock'), 'utf8').split('\n', 1)[0] ?? '';
      if (processIdentity(Number.parseInt(owner, 10)) === owner) continue;
      rmSync(directory, { recursive: true, force: true });
    } catch {
      // Just made, or somebody else's: not ours to judge.
    }
  }
}
