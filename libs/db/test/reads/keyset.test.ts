import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  createBlocks,
  DEFAULT_PROJECT_ID,
  deleteTool,
  inTransaction,
  listBlocks,
  listTools,
  newId,
  registerModuleTools,
  type BlockFilter,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

const everything: BlockFilter = {
  label: null,
  label_part: null,
  value_part: null,
  description_part: null,
  is_template: null,
  agents_above: null,
  agents_below: null,
  agents_equal: [],
};

describe('a page', () => {
  let sorted: readonly string[] = [];
  beforeAll(async () => {
    const blocks = Array.from({ length: 40 }, (_, n) => ({
      id: newId(),
      label: `l${n}`,
      value: '',
      description: null,
      char_limit: 1,
      read_only: false,
      metadata: {},
      tags: [],
      is_template: false,
      hidden: false,
    }));
    await inTransaction(database.db, (trx) => createBlocks(trx, DEFAULT_PROJECT_ID, blocks));
    // Groups of equal times, and times that differ by a microsecond, which a Date cannot represent.
    await database.pool.query(
      `update block b set created_at = timestamptz '2026-01-01' + (n.n / 4) * interval '1 microsecond'
       from (select id, (row_number() over (order by md5(id::text)))::int as n from block) n where b.id = n.id`,
    );
    const { rows } = await database.pool.query<{ id: string }>(
      'select id from block order by created_at, id',
    );
    sorted = rows.map((row) => row.id);
  });

  test('after or before any item holds exactly its neighbours, in the requested order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(39),
        fc.integer({ min: 1, max: 50 }),
        fc.constantFrom('asc' as const, 'desc' as const),
        fc.constantFrom('after' as const, 'before' as const),
        async (index, limit, order, side) => {
          const inOrder = order === 'asc' ? sorted : sorted.toReversed();
          const expected =
            side === 'after'
              ? inOrder.slice(index + 1, index + 1 + limit)
              : inOrder.slice(Math.max(0, index - limit), index);
          const cursor = inOrder[index] ?? '';
          const { rows } = await listBlocks(
            database.db,
            DEFAULT_PROJECT_ID,
            {
              limit,
              order,
              after: side === 'after' ? cursor : null,
              before: side === 'before' ? cursor : null,
            },
            everything,
          );
          expect(rows.map((row) => row.id)).toEqual(expected);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('between two items holds the items between them', async () => {
    const { rows } = await listBlocks(
      database.db,
      DEFAULT_PROJECT_ID,
      { limit: 100, order: 'asc', after: sorted[3] ?? '', before: sorted[9] ?? '' },
      everything,
    );
    expect(rows.map((row) => row.id)).toEqual(sorted.slice(4, 9));
  });

  test.each(['5f0c7c4e-0000-4000-8000-000000000000', '01900000-0000-7000-8000-000000000000'])(
    'from %s, which never existed, is refused',
    async (after) => {
      const page = { limit: 2, order: 'asc', before: null, after } as const;
      await expect(listBlocks(database.db, DEFAULT_PROJECT_ID, page, everything)).rejects.toThrow(
        '?after names no item of this list.',
      );
    },
  );
});

test('items of another project are no cursors, deleted or not', async () => {
  const projectId = newId();
  await database.pool.query("insert into project (id, name) values ($1, 'another')", [projectId]);
  const tool = {
    ...{ name: 'foreign', description: '', input_schema: {}, side_effects: 'none' as const },
    ...{ return_char_limit: 1, timeout_ms: 1 },
  };
  await inTransaction(database.db, (trx) => registerModuleTools(trx, projectId, [tool]));
  const filter = { names: null, ids: null, name_part: null, tool_types: null, excluded_tool_types: null };
  const first = { limit: 1, order: 'asc', before: null, after: null } as const;
  const { rows } = await listTools(database.db, projectId, first, filter);
  const after = rows[0]!.id;
  const list = () => listTools(database.db, DEFAULT_PROJECT_ID, { ...first, after }, filter);
  await expect(list()).rejects.toThrow('?after names no item of this list.');
  await inTransaction(database.db, (trx) => deleteTool(trx, projectId, after));
  await expect(list()).rejects.toThrow('?after names no item of this list.');
});

test('a client that deletes while listing sees every item once', async () => {
  for (let n = 0; n < 6; n++) {
    await inTransaction(database.db, (trx) =>
      registerModuleTools(trx, DEFAULT_PROJECT_ID, [
        {
          name: `tool_${n}`,
          description: '',
          input_schema: {},
          side_effects: 'none',
          return_char_limit: 1,
          timeout_ms: 1,
        },
      ]),
    );
  }
  const filter = { names: null, ids: null, name_part: null, tool_types: null, excluded_tool_types: null };
  for (const order of ['asc', 'desc'] as const) {
    const page = { limit: 1, order, before: null };
    const seen: string[] = [];
    let after: string | null = null;
    for (let n = 0; n < 3; n++) {
      const {
        rows: [tool],
      }: { readonly rows: readonly { id: string; name: string }[] } = await listTools(
        database.db,
        DEFAULT_PROJECT_ID,
        { ...page, after },
        filter,
      );
      seen.push(tool!.name);
      await inTransaction(database.db, (trx) => deleteTool(trx, DEFAULT_PROJECT_ID, tool!.id));
      after = tool!.id;
    }
    expect(seen).toEqual(order === 'asc' ? ['tool_0', 'tool_1', 'tool_2'] : ['tool_5', 'tool_4', 'tool_3']);
  }
});

test('a client that deletes while listing misses no item created in the same millisecond', async () => {
  const names = ['older', 'newer'];
  await inTransaction(database.db, (trx) =>
    registerModuleTools(
      trx,
      DEFAULT_PROJECT_ID,
      names.map((name) => ({
        name,
        description: '',
        input_schema: {},
        side_effects: 'none' as const,
        return_char_limit: 1,
        timeout_ms: 1,
      })),
    ),
  );
  const filter = { names, ids: null, name_part: null, tool_types: null, excluded_tool_types: null };
  const page = { limit: 1, order: 'desc', before: null, after: null } as const;
  const {
    rows: [, newer],
  } = await listTools(database.db, DEFAULT_PROJECT_ID, { ...page, order: 'asc', limit: 2 }, filter);
  // The newer id was created in the millisecond in which the older row was written.
  await database.pool.query(
    `update tool set created_at = $1::timestamptz + case name when 'older' then interval '0.7 ms' else interval '0.9 ms' end
     where name = any($2)`,
    [new Date(Number.parseInt(newer!.id.slice(0, 8) + newer!.id.slice(9, 13), 16)), names],
  );
  const {
    rows: [first],
  } = await listTools(database.db, DEFAULT_PROJECT_ID, page, filter);
  await inTransaction(database.db, (trx) => deleteTool(trx, DEFAULT_PROJECT_ID, first!.id));
  const { rows: rest } = await listTools(
    database.db,
    DEFAULT_PROJECT_ID,
    { ...page, after: first!.id },
    filter,
  );
  expect(rest.map(({ name }) => name)).toEqual(['older']);
});
