import { definitionKey, workClassKey, type WorkSample } from '@nightshift/agent-core';
import { readDefinitions, readWorkStatistics } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { createWorkBook, workStatisticsOf } from '../../src/flow-parts/work-statistics.ts';
import { call, openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

async function keys(): Promise<{
  readonly definition: string;
  readonly work_class: string;
  readonly id: string;
}> {
  const [row] = await house.rows<{ id: string }>('select id from definition');
  const [definition] = await readDefinitions(house.database.db, [row?.id ?? '']);
  if (definition === undefined) throw new Error('There is no definition.');
  return {
    id: definition.id,
    definition: definitionKey(definition.id),
    work_class: workClassKey(definition),
  };
}

describe('statistics of work', () => {
  test('count the answers and ends of runs by definition and by work class', async () => {
    const input = [call('core_memory_append', { label: 'human', content: 'more' }), 'and that is all'].join(
      '\n',
    );
    await house.submit(
      Array.from({ length: 3 }, () => ({
        input,
        blocks: { human: 'Ada' },
        tools: ['core_memory_append'],
        isolated: true,
      })),
    );
    await house.drive(house.worker());
    const { definition, work_class } = await keys();
    const found = await readWorkStatistics(house.database.db, [definition, work_class]);
    for (const key of [definition, work_class]) {
      expect(found.get(key)).toMatchObject({ answers: 6, runs: 3 });
      expect(found.get(key)?.steps.map(({ answers, ended }) => [answers, ended])).toEqual([
        [3, 0],
        [3, 3],
      ]);
    }
    const [billed] = await house.rows<{ output: number; prompt: number }>(
      `select sum(output_tokens)::int as output,
              sum(input_tokens + cache_read_tokens + cache_write_1h_tokens + cache_write_5m_tokens)::int as prompt from step`,
    );
    expect(found.get(definition)).toMatchObject({
      output_tokens: billed?.output,
      prompt_tokens: billed?.prompt,
    });
  });

  test('are read once for a time, and again after the own samples were written', async () => {
    let now = 1_000;
    const book = createWorkBook({ maxAgeMs: 100, entriesMax: 2, now: () => now });
    const { db } = house.database;
    const sample: WorkSample = {
      keys: ['a'],
      step_number: 1,
      usage: null,
      ended: true,
    };
    const runsOf = async (key: string): Promise<number | undefined> =>
      (await book.read(db, [key])).get(key)?.runs;
    expect(await runsOf('a')).toBeUndefined();
    book.record([sample]);
    await book.flush(db);
    expect(await runsOf('a')).toBe(1);
    await house.rows(`update work_statistic set ended = 5`);
    expect(await runsOf('a')).toBe(1);
    now += 101;
    expect(await runsOf('a')).toBe(5);
    await house.rows(`update work_statistic set ended = 6`);
    await book.read(db, ['b', 'c']);
    expect(await runsOf('a')).toBe(6);
  });

  test('that cannot be written are dropped without harm', async () => {
    await house.rows('alter table work_statistic add check (false) not valid');
    const batch = await house.submit([{ input: 'Say hello.' }]);
    await house.drive(house.worker());
    expect((await house.runsOf(batch.id)).map(({ state }) => state)).toEqual(['completed']);
  });

  test('of the work class serve a definition with few answers', async () => {
    await house.submit([{ input: 'Say hello.' }]);
    const worker = house.worker();
    await house.drive(worker);
    const { id, work_class } = await keys();
    const cached = await worker.definitions.get(worker.db, [id]);
    const ofNow = async () => (await workStatisticsOf(worker, worker.db, cached.values())).get(id);
    expect(await ofNow()).toMatchObject({ of: 'class', statistics: { answers: 1 } });
    await house.rows(`update work_statistic set answers = 10 where key <> $1`, [work_class]);
    const { db, definitions } = worker;
    const fresh = { db, definitions, work: createWorkBook() };
    expect((await workStatisticsOf(fresh, db, cached.values())).get(id)).toMatchObject({
      of: 'definition',
      statistics: { answers: 10 },
    });
    await house.rows('delete from work_statistic');
    const empty = { work: createWorkBook() };
    expect((await workStatisticsOf(empty, db, cached.values())).get(id)).toEqual({
      statistics: null,
      of: null,
    });
  });
});
