import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect, migrateToLatest } from '../libs/db/src/index.ts';
import { createPool, startEmbeddedPostgres } from '../libs/services/src/index.ts';
import { describeSchema } from './schema/describe-schema.ts';

// Writes libs/db/schema.sql: what the migrations make of an empty database. With --check it writes nothing and fails
// when the file is out of date. Needs no server: it starts one of its own in a temporary directory.
const file = fileURLToPath(new URL('../libs/db/schema.sql', import.meta.url));
const [option, ...more] = process.argv.slice(2);
if ((option !== undefined && option !== '--check') || more.length > 0) {
  console.error('Usage: npm run dump-schema [-- --check]');
  process.exit(2);
}

const schema = await dumpMigratedSchema();
if (option === undefined) {
  writeFileSync(file, schema);
  console.log(`Wrote ${file}.`);
} else if (schema === readOrEmpty(file)) {
  console.log(`${file} is up to date.`);
} else {
  console.error(`${file} is not what the migrations make. Run: npm run dump-schema`);
  process.exitCode = 1;
}

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

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
