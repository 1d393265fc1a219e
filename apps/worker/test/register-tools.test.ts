import type {} from '../../../test/global-setup.ts';
import { findTools, DEFAULT_PROJECT_ID } from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { RESULT_CHAR_LIMIT_MAX, TIMEOUT_MS_MAX, type ToolManifest } from '@nightshift/tool-host';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { registerTools } from '../src/register-tools.ts';

let database: TestDatabase;
beforeEach(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterEach(() => database.close());

const archive: ToolManifest = {
  name: 'archive',
  description: 'Reads an archive.',
  parameters: { type: 'object', properties: {} },
  side_effects: 'none',
  speed: 'fast',
  concurrency: null,
  timeout_ms: TIMEOUT_MS_MAX,
  result_char_limit: RESULT_CHAR_LIMIT_MAX,
  file: '/tools/archive.ts',
};

test('a tool with the largest limits that the tool host allows is offered', async () => {
  expect(await registerTools(database.db, [archive])).toEqual([]);
  expect(await findTools(database.db, DEFAULT_PROJECT_ID, { names: ['archive'], ids: [] })).toMatchObject([
    { timeout_ms: TIMEOUT_MS_MAX, return_char_limit: RESULT_CHAR_LIMIT_MAX },
  ]);
});

test('a tool that the provider would refuse is left out, and the others are offered', async () => {
  const odd = { ...archive, name: 'odd', parameters: { type: 'string' } };
  expect(await registerTools(database.db, [odd, archive])).toMatchObject([{ tool: 'odd' }]);
  const found = await findTools(database.db, DEFAULT_PROJECT_ID, { names: ['odd', 'archive'], ids: [] });
  expect(found.map((tool) => tool.name)).toEqual(['archive']);
});
