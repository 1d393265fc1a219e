import type {} from '../../../../test/global-setup.ts';
import { DEFAULT_PROJECT_ID, inTransaction, revertBatch } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { call, openHouse, type House } from './house.ts';

const RUNS = 1_000;
const FIRST = 'first line';

let house: House;
let worker: FlowDeps;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  worker = house.worker({ settings: { chunk_lines: 250 } });
});
afterEach(() => house.close());

interface Revision {
  readonly revision: number;
  readonly value: string;
  readonly resolution: string | null;
}

/** Runs a thousand agents that share one block, with one call each by their request; returns the block's final text. */
async function runFleet(
  policy: string,
  callOf: (name: string) => string,
  text = FIRST,
): Promise<{ readonly revisions: readonly Revision[]; readonly restored: string | undefined }> {
  const batch = await house.submit(
    Array.from({ length: RUNS }, (_, index) => ({
      input: callOf(`agent ${index}`),
      blocks: index === 0 ? { board: text } : {},
      tools: ['core_memory_append', 'memory_rethink', 'memory_replace'],
    })),
  );
  await house.rows(`update block set conflict_policy = $1 where label = 'board'`, [policy]);
  await house.rows(
    `insert into agent_block (agent_id, block_id, label, project_id, position)
     select a.id, b.id, b.label, b.project_id, 0 from agent a, block b
      where b.label = 'board' and a.id = any($1) and a.id <> $2`,
    [batch.agent_ids, batch.agent_ids[0]],
  );
  await house.drive(worker);
  const revisions = await house.rows<Revision>(
    `select r.revision, r.value, r.resolution from block b join block_revision r on r.block_id = b.id
      where b.label = 'board' order by r.revision`,
  );
  await inTransaction(house.database.db, (trx) => revertBatch(trx, DEFAULT_PROJECT_ID, batch.id, false));
  const [head] = await house.rows<{ value: string }>(
    `select r.value from block b join block_revision r on r.block_id = b.id and r.revision = b.head_revision
      where b.label = 'board'`,
  );
  return { revisions, restored: head?.value };
}

/** Counts the calls by outcome. */
async function outcomes(): Promise<Record<string, number>> {
  const rows = await house.rows<{ state: string; count: number }>(
    'select state, count(*)::int as count from tool_call group by state',
  );
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
}

const names = Array.from({ length: RUNS }, (_, index) => `agent ${index}`);
const append = (name: string) => call('core_memory_append', { label: 'board', content: name });
const rewrite = (name: string) =>
  call('memory_rethink', { label: 'board', new_memory: `written by ${name}` });

test('under merge, a thousand runs that append to a shared block lose no line', async () => {
  const { revisions, restored } = await runFleet('merge', append);
  expect(await outcomes()).toEqual({ succeeded: RUNS });
  const lines = revisions.at(-1)?.value.split('\n') ?? [];
  expect(lines[0]).toBe(FIRST);
  expect(lines.slice(1).toSorted()).toEqual(names.toSorted());
  expect(revisions).toHaveLength(RUNS + 1);
  expect(Map.groupBy(revisions.slice(1), (row) => row.resolution).get('merged')).toHaveLength(RUNS - 1);
  expect(restored).toBe(FIRST);
});

test('under merge, a thousand runs that each rewrite their own line lose none', async () => {
  const lines = names.map((_, index) => `${index}: old`);
  const { revisions, restored } = await runFleet(
    'merge',
    (name) => {
      const line = `${name.slice('agent '.length)}: `;
      // The line break distinguishes line 1 from line 11.
      const [old_string, new_string] = [`\n${line}old`, `\n${line}new`];
      return call('memory_replace', { label: 'board', old_string, new_string });
    },
    `\n${lines.join('\n')}`,
  );
  expect(await outcomes()).toEqual({ succeeded: RUNS });
  expect(revisions.at(-1)?.value).toBe(`\n${lines.join('\n').replaceAll('old', 'new')}`);
  expect(restored).toBe(`\n${lines.join('\n')}`);
});

test('under reject, a conflicting write is refused to its agent, and the first write stays', async () => {
  const { revisions, restored } = await runFleet('reject', append);
  const { succeeded = 0, failed = 0 } = await outcomes();
  const lines = revisions.at(-1)?.value.split('\n') ?? [];
  expect(lines.slice(1)).toHaveLength(succeeded);
  expect(revisions).toHaveLength(succeeded + 1);
  expect([succeeded, failed]).toEqual([1, RUNS - 1]);
  const [told] = await house.rows<{ count: number }>(
    `select count(*)::int as count from message
      where role = 'user' and content::text like '%was changed by another run%Nothing was written%'`,
  );
  expect(told?.count).toBe(failed);
  expect(restored).toBe(FIRST);
});

test('under last_write, every overwritten text is kept as a revision with that reason', async () => {
  const { revisions, restored } = await runFleet('last_write', rewrite);
  expect(await outcomes()).toEqual({ succeeded: RUNS });
  expect(
    revisions
      .slice(1)
      .map((row) => row.value)
      .toSorted(),
  ).toEqual(names.map((name) => `written by ${name}`).toSorted());
  const counts = Map.groupBy(revisions, (row) => row.resolution ?? 'by a person');
  expect([counts.get('clean')?.length, counts.get('overwrote')?.length]).toEqual([1, RUNS - 1]);
  expect(restored).toBe(FIRST);
});
