import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { DEFAULT_PROJECT_ID, listAgents, PAGE_BYTES_MAX } from '../../src/index.ts';
import { readCutPage } from '../../src/reads/cut-page.ts';
import { createTestAgents } from '../factories.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

const read = (sizes: readonly number[]) =>
  readCutPage<{ n: number }>(
    database.db,
    sql`select n::integer, size from unnest(${[...sizes]}::bigint[]) with ordinality as s (size, n) order by n desc`,
    sql`p.size`,
  );

test('a page holds the rows before the row that exceeds it, in order', async () => {
  const half = PAGE_BYTES_MAX / 2;
  const page = await read([1, half, half, 0]);
  expect(page.rows.map(({ n }) => n)).toEqual([4, 3, 2]);
  expect(page.is_cut).toBe(true);
});

test('a page below the limit is not cut, and a too large row comes alone', async () => {
  expect(await read([1, 2])).toEqual({
    rows: [
      { n: 2, size: 2 },
      { n: 1, size: 1 },
    ],
    is_cut: false,
  });
  expect(await read([])).toEqual({ rows: [], is_cut: false });
  expect(await read([1, 3 * PAGE_BYTES_MAX])).toMatchObject({ rows: [{ n: 2 }], is_cut: true });
});

test('the size of an agent includes its relations in the answer', async () => {
  await createTestAgents(database.db, 3);
  await sql`update block_revision set value = repeat('x', ${PAGE_BYTES_MAX / 2}::integer)`.execute(
    database.db,
  );
  const filter = { name: null, name_part: null, tags: [], all_tags: false, block_id: null };
  const page = { limit: 10, order: 'asc', after: null, before: null } as const;
  const list = (blocks: boolean) =>
    listAgents(database.db, DEFAULT_PROJECT_ID, page, filter, 'created_at', { blocks, tools: true });
  const [bare, whole] = await Promise.all([list(false), list(true)]);
  expect([bare.rows.length, bare.is_cut]).toEqual([3, false]);
  expect([whole.rows.length, whole.is_cut]).toEqual([1, true]);

  const text = sql`repeat('x', ${PAGE_BYTES_MAX / 2}::integer)`;
  await sql`update block_revision set value = '', description = ${text}`.execute(database.db);
  expect((await list(true)).rows).toHaveLength(1);
  await sql`update block_revision set description = null`.execute(database.db);
  expect((await list(true)).rows).toHaveLength(3);
  await sql`update block set metadata = json_build_object('x', ${text})`.execute(database.db);
  expect((await list(true)).rows).toHaveLength(1);
});

test('the size of an agent includes its message ids', async () => {
  await createTestAgents(database.db, 800);
  const filter = { name: null, name_part: null, tags: [], all_tags: false, block_id: null };
  const page = { limit: 1_000, order: 'asc', after: null, before: null } as const;
  const list = () => listAgents(database.db, DEFAULT_PROJECT_ID, page, filter);
  const { rows: all, is_cut } = await list();
  expect([all.length >= 800, is_cut]).toEqual([true, false]);
  await sql`
    insert into message (project_id, conversation_id, seq, role, content)
    select project_id, conversation_id, 5000, 'user', '[]' from agent`.execute(database.db);
  const cut = await list();
  expect(cut.is_cut).toBe(true);
  expect(cut.rows.length).toBeLessThanOrEqual(PAGE_BYTES_MAX / 47_000 + 1);
  await sql`update conversation set context_from_seq = 4999`.execute(database.db);
  expect(await list()).toEqual({ rows: all, is_cut: false });
});
