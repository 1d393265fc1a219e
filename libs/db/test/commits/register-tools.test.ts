import { MEMORY_TOOLS } from '@nightshift/agent-core';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import {
  changeTool,
  DEFAULT_PROJECT_ID,
  findTools,
  inTransaction,
  registerMemoryTools,
  registerModuleTools,
  type ModuleTool,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

const fax: ModuleTool = {
  name: 'fax',
  description: 'Sends a fax.',
  input_schema: { type: 'object', properties: { to: { type: 'string' } } },
  side_effects: 'once',
  return_char_limit: 100,
  timeout_ms: 1_000,
};
const register = (...tools: ModuleTool[]) =>
  inTransaction(database.db, (trx) => registerModuleTools(trx, DEFAULT_PROJECT_ID, tools));
const readTools = async (...names: string[]) =>
  findTools(database.db, DEFAULT_PROJECT_ID, { names, ids: [] });

test('processes that start together register the built-in tools once', async () => {
  await Promise.all(
    Array.from({ length: 5 }, () =>
      inTransaction(database.db, (trx) => registerMemoryTools(trx, DEFAULT_PROJECT_ID)),
    ),
  );
  const names = MEMORY_TOOLS.map((tool) => tool.name);
  expect((await readTools(...names)).map((tool) => tool.name).sort()).toEqual([...names].sort());
});

test('an unchanged module tool is not written, a changed tool keeps its id and the settings of users', async () => {
  await register(fax);
  const [first] = await readTools('fax');
  await register(fax);
  expect(await readTools('fax')).toEqual([first]);
  await inTransaction(database.db, (trx) =>
    changeTool(trx, DEFAULT_PROJECT_ID, first!.id, {
      return_char_limit: 7,
      requires_approval: true,
      tags: ['x'],
      metadata: null,
    }),
  );
  await register({ ...fax, description: 'Sends a fax, slowly.', timeout_ms: 9_000 });
  expect(await readTools('fax')).toMatchObject([
    {
      id: first!.id,
      description: 'Sends a fax, slowly.',
      timeout_ms: 9_000,
      return_char_limit: 7,
      requires_approval: true,
      tags: ['x'],
    },
  ]);
});

test('a module tool does not replace a built-in tool of the same name', async () => {
  await register({ ...fax, name: 'memory_insert' });
  expect(await readTools('memory_insert')).toMatchObject([{ kind: 'memory' }]);
});
