import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import {
  approveMcpTools,
  createMcpServer,
  DEFAULT_PROJECT_ID,
  deleteMcpServer,
  inTransaction,
  readMcpTools,
  type McpApproval,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { gate, untilLockIsAwaited } from '../worker-commits/night-shift.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

const DEFINITION = { name: 'find', title: null, description: 'Finds.', input_schema: { type: 'object' } };
const SHA256 = 'a'.repeat(64);

let servers = 0;
let server: { readonly id: string; readonly name: string };
beforeEach(async () => {
  servers += 1;
  const config = { name: `server-${servers}`, url: 'https://example.com', headers: {}, auth_header: null };
  const definition = { ...DEFINITION, output_schema: null, annotations: null };
  const id = await inTransaction(database.db, (trx) =>
    createMcpServer(trx, DEFAULT_PROJECT_ID, config, {
      revision: '2026-07-28',
      tools: [{ definition, sha256: SHA256 }],
    }),
  );
  server = { id, name: config.name };
});

function approve(trx: Tx, tool_name: string): Promise<void> {
  const kept = { side_effects: null, requires_approval: null, return_char_limit: null, timeout_ms: null };
  const approval: McpApproval = { name: 'find', definition_sha256: SHA256, tool_name, ...kept };
  return approveMcpTools(trx, DEFAULT_PROJECT_ID, server, [approval]);
}

const remove = (trx: Tx): Promise<void> => deleteMcpServer(trx, DEFAULT_PROJECT_ID, server.id);

function toolsNamed(name: string) {
  return database.db.selectFrom('tool').select('id').where('name', '=', name).execute();
}

/** Runs `first`, and delays its commit until `second` waits for it. */
async function meet(
  first: (trx: Tx) => Promise<void>,
  second: (trx: Tx) => Promise<void>,
): Promise<PromiseSettledResult<void>[]> {
  const [done, goOn] = [gate(), gate()];
  const one = inTransaction(database.db, async (trx) => {
    await first(trx);
    done.open();
    await goOn.opened;
  });
  await done.opened;
  const other = inTransaction(database.db, second);
  await untilLockIsAwaited(database.db);
  goOn.open();
  return Promise.allSettled([one, other]);
}

test('a server deleted while its tool is approved leaves no tool', async () => {
  const ends = await meet((trx) => approve(trx, 'find_1'), remove);
  expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
  expect(await toolsNamed('find_1')).toEqual([]);
});

test('a tool approved while its server is deleted is refused', async () => {
  const [, approved] = await meet(remove, (trx) => approve(trx, 'find_2'));
  expect(approved).toMatchObject({ status: 'rejected', reason: { code: 'conflict' } });
  expect(await toolsNamed('find_2')).toEqual([]);
});

test('a tool of agents keeps its name, by which calls of open runs are limited', async () => {
  const { db } = database;
  await inTransaction(db, (trx) => approve(trx, 'find_3'));
  await inTransaction(db, (trx) => approve(trx, 'find_3'));
  await expect(inTransaction(db, (trx) => approve(trx, 'find_4'))).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('leave tool_name out, or delete the tool') as string,
  });
  expect(await readMcpTools(db, server.id)).toMatchObject([{ tool_name: 'find_3' }]);
});
