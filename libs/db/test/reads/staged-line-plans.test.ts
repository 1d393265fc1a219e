import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  DEFAULT_PROJECT_ID,
  deleteStagedLines,
  encodeLines,
  newId,
  openUpload,
  readDuplicateLines,
  readStagedLines,
  stageLines,
  takeStagedLines,
  type Database,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { countNearlyNone, explain, leaveUncounted, rowsReadOf } from '../plans.ts';

const LINES = 30_000;

let database: TestDatabase;
let db: Database;
let uploads: readonly string[];
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['staged_line']);
  uploads = [newId(), newId()];
  for (const batch_id of uploads) {
    await openUpload(db, DEFAULT_PROJECT_ID, batch_id);
    const lines = Array.from({ length: LINES }, (_, n) => ({
      custom_id: `line ä ${n % 29_990}`,
      run: `{"n": ${n}}`,
    }));
    await stageLines(db, [encodeLines({ batch_id, project_id: DEFAULT_PROJECT_ID }, 0, lines)]);
  }
});
afterAll(() => database.close());

const limits = { lines: 500, bytes: 4_000 };

test('staged lines come back as they were sent, in portions of bounded lines and bytes', async () => {
  const [id = ''] = uploads;
  expect((await readStagedLines(db, id, 29_998, limits)).map((line) => ({ ...line }))).toEqual([
    { ordinal: 29_998, custom_id: 'line ä 8', run: { n: 29_998 } },
    { ordinal: 29_999, custom_id: 'line ä 9', run: { n: 29_999 } },
  ]);
  // Of 12 bytes each: the portion ends with the line that reaches the limit.
  expect(await readStagedLines(db, id, 15_000, limits)).toHaveLength(334);
  expect(await readStagedLines(db, id, 15_000, { lines: 500, bytes: 1 })).toHaveLength(1);
  expect(await readStagedLines(db, id, LINES, limits)).toEqual([]);
});

describe.each(['never counted', 'counted', 'counted while nearly none could be seen'])(
  'among two uploads of 30,000 lines, with rows %s,',
  (when) => {
    beforeAll(async () => {
      if (when !== 'never counted') await sql`analyze staged_line`.execute(db);
      if (when === 'counted while nearly none could be seen') await countNearlyNone(db);
    });

    test('a portion is taken without a look at the others', async () => {
      const plans = await explain(database.url, async (trx) => {
        expect(await takeStagedLines(trx, uploads[1] ?? '', 20_000, limits)).toHaveLength(334);
      });
      for (const rows of rowsReadOf(plans, 'staged_line')) expect(rows).toBeLessThanOrEqual(500);
    });

    test('lines are deleted in portions', async () => {
      const plans = await explain(database.url, async (trx) => {
        expect(await deleteStagedLines(trx, uploads[1] ?? '')).toBe(true);
      });
      for (const rows of rowsReadOf(plans, 'staged_line')) expect(rows).toBeLessThanOrEqual(20_000);
    });

    test('duplicate custom ids are named with their first line, in one pass over the upload', async () => {
      const plans = await explain(database.url, async (trx) => {
        const { lines, total } = await readDuplicateLines(trx, uploads[0] ?? '', 3);
        expect(total).toBe(10);
        expect(lines).toEqual([0, 1, 2].map((n) => ({ ordinal: 29_990 + n, first: n })));
      });
      for (const rows of rowsReadOf(plans, 'staged_line')) expect(rows).toBeLessThanOrEqual(2 * LINES);
    });
  },
);
