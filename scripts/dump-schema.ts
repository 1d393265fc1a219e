import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, migrateToLatest } from '../libs/db/src/index.ts';
import { createPool, startEmbeddedPostgres } from '../libs/services/src/index.ts';
import { readCommandLine } from './command-line.ts';
import { describeSchema } from './schema/describe-schema.ts';

readCommandLine({
  name: 'dump-schema',
  what: 'Writes libs/db/schema.sql: the schema that the migrations make of an empty database, on a server of its own.',
  takes: 'a few seconds',
  flags: {},
});
const file = join(import.meta.dirname, '../libs/db/schema.sql');
writeFileSync(file, await dumpMigratedSchema());
console.log(`Wrote ${file}.`);

async function dumpMigratedSchema(): Promise<string> {
  const dataDir = mkdtempSync(join(tmpdir(), 'nightshift-schema-'));
  try {
    const postgres = await startEmbeddedPostgres({ dataDir, durable: false });
    try {
      const pool = createPool({ url: postgres.url, max: 2, applicationName: 'nightshift-dump-schema' });
      try {
        await migrateToLatest(connect(pool));
        return await describeSchema(pool);
      } finally {
        await pool.end();
      }
    } finally {
      await postgres.stop();
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}
