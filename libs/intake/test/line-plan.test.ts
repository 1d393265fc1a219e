import { SHIPPED_PRICES } from '@nightshift/agent-core';
import { DEFAULT_PROJECT_ID, readNow } from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { createTestAgents } from '../../db/test/factories.ts';
import { openLinePlan } from '../src/upload/line-plan.ts';

let database: TestDatabase;
let agent_id: string;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  const [agent] = await createTestAgents(database.db, 1);
  agent_id = agent?.id ?? '';
});
afterAll(() => database.close());

const CHARS = 100_000;
const planOf = async (template: string) => {
  const { db } = database;
  const facts = { db, projectId: DEFAULT_PROJECT_ID, prices: SHIPPED_PRICES, now: await readNow(db) };
  const head = {
    options: {},
    template: { agent_id, input: template },
    tools: null,
    path: '',
    filled_chars_max: 1e9,
  };
  return openLinePlan(facts, head);
};
const inputs = (count: number, n = 'x') =>
  Array.from({ length: count }, (_, index) => ({
    line: index + 2,
    request: { custom_id: `input-${index}`, variables: { n } },
  }));

test('a portion ends at two million filled characters, however small its inputs are', async () => {
  const plan = await planOf(`${'y'.repeat(CHARS)}{{ n }}`);
  const lines = inputs(50);
  const portions: number[] = [];
  for (let from = 0; from < lines.length;) {
    const planned = await plan.plan(lines.slice(from));
    expect(planned.errors).toEqual([]);
    expect(planned.lines.map(({ custom_id }) => custom_id)).toEqual(
      lines.slice(from, from + planned.taken).map(({ request }) => request.custom_id),
    );
    portions.push(planned.lines.length);
    from += planned.taken;
  }
  expect(portions).toEqual([20, 20, 10]);
});

test('a portion names its wrong inputs by line', async () => {
  const plan = await planOf('{{ missing }}');
  const { lines, errors, taken } = await plan.plan(inputs(150));
  expect([lines.length, taken]).toEqual([0, 150]);
  expect(errors.map(({ fields, total }) => [fields.length, fields[99]?.path, total])).toEqual([
    [100, '/lines/101/variables', null],
  ]);
});
