import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import {
  DEFAULT_PROJECT_ID,
  dropUpload,
  encodeLines,
  inTransaction,
  newId,
  openUpload,
  receiveLines,
  stageLines,
  type Database,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aBatch } from '../factories.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());

const LINES = 3;

async function stage(): Promise<string> {
  const id = newId();
  await openUpload(db, DEFAULT_PROJECT_ID, id);
  const lines = Array.from({ length: LINES }, () => ({ custom_id: null, run: '{}' }));
  await stageLines(db, [encodeLines({ batch_id: id, project_id: DEFAULT_PROJECT_ID }, 0, lines)]);
  return id;
}

const receive = (id: string, beforeCommit: () => Promise<void> = async () => undefined) =>
  inTransaction(db, async (trx) => {
    const { runs: _, ...batch } = aBatch([], { id });
    const stored = { ...batch, source: { kind: 'lines' }, lines: LINES, has_capped_runs: false };
    await receiveLines(trx, DEFAULT_PROJECT_ID, stored);
    await beforeCommit();
  });

const linesOf = (id: string) =>
  db.selectFrom('staged_line').select('ordinal').where('batch_id', '=', id).execute();

test('a staged line keeps every character of its custom id and its run', async () => {
  const batch_id = newId();
  await openUpload(db, DEFAULT_PROJECT_ID, batch_id);
  const lines = ['\\N', '\\', 'a\\tb\tc\nd\r', '', 'é 😀', null].map((custom_id) => ({
    custom_id,
    run: JSON.stringify({ text: `${custom_id} \\. "` }),
  }));
  const parts = [lines.slice(0, 2), [], lines.slice(2)];
  let from = 0;
  const encoded = parts.map((part) => {
    const bytes = encodeLines({ batch_id, project_id: DEFAULT_PROJECT_ID }, from, part);
    from += part.length;
    return bytes;
  });
  await stageLines(db, encoded);
  const { rows } = await sql<{ custom_id: string | null; run: string; bytes: number }>`
    select custom_id, run::text as run, bytes from staged_line where batch_id = ${batch_id}::uuid order by ordinal
  `.execute(db);
  expect(rows).toEqual(lines.map((line) => ({ ...line, bytes: Buffer.byteLength(line.run) })));
  await dropUpload(db, batch_id);
});

test('dropping an upload deletes its lines', async () => {
  const id = await stage();
  await dropUpload(db, id);
  expect(await linesOf(id)).toEqual([]);
});

test('dropping an upload whose batch is stored keeps the lines of the batch', async () => {
  const id = await stage();
  await receive(id);
  await dropUpload(db, id);
  expect(await linesOf(id)).toHaveLength(LINES);
});

test('dropping an upload waits for the commit that stores its batch, and then keeps the lines', async () => {
  const id = await stage();
  let dropped: Promise<void> = Promise.resolve();
  await receive(id, async () => {
    dropped = dropUpload(db, id);
    await expect
      .poll(async () => {
        const { rows } = await database.pool.query(
          'select from pg_locks where not granted and pid in (select pid from pg_stat_activity where datname = current_database())',
        );
        return rows.length;
      })
      .toBeGreaterThan(0);
  });
  await dropped;
  expect(await linesOf(id)).toHaveLength(LINES);
});
