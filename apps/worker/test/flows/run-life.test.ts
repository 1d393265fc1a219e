import type {} from '../../../../test/global-setup.ts';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { answering, openHouse, script, type House } from './house.ts';
import { openHouseApi, type HouseApi } from './house-api.ts';

let house: House;
let server: HouseApi;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [
      {
        name: 'act',
        description: 'Does something in the world.',
        input_schema: { type: 'object' },
        side_effects: 'once',
        return_char_limit: 10_000,
        timeout_ms: 1_000,
      },
    ],
  });
  server = await openHouseApi(house.database.db);
});
afterEach(async () => {
  await server.close();
  await house.close();
});

const RESULT = 'a'.repeat(5_000);

async function runWithCalls(): Promise<string> {
  const input = script(
    [
      { tool: 'act', args: { place: 'first' } },
      { tool: 'act', args: { place: 'second' } },
    ],
    { tool: 'act', args: { place: 'third' } },
    { text: 'Done.' },
  );
  const batch = await house.submit([{ input, tools: ['act'] }]);
  await house.drive(house.worker({ tools: answering(() => RESULT) }));
  return `/v1/runs/run-${batch.run_ids[0] ?? ''}`;
}

test('the tool calls of a run have arguments, results, times and attempts, in pages', async () => {
  const run = await runWithCalls();
  const all = await server.call('GET', `${run}/tool-calls`);
  expect(all.body).toMatchObject(
    ['first', 'second', 'third'].map((place, index) => ({
      step_number: index === 2 ? 2 : 1,
      name: 'act',
      kind: 'module',
      state: 'succeeded',
      arguments: { place },
      result: RESULT.slice(0, 2_000),
      result_chars: 5_000,
      attempts: 1,
    })),
  );
  expect((await server.call('GET', `${run}/tool-calls?include=result&limit=1`)).body[0].result).toBe(RESULT);
  const ids: string[] = all.body.map(({ id }: { id: string }) => id);
  const page = async (query: string): Promise<string[]> =>
    (await server.call('GET', `${run}/tool-calls?${query}`)).body.map(({ id }: { id: string }) => id);
  expect(await page(`limit=1&after=${ids[0]}`)).toEqual([ids[1]]);
  expect(await page(`limit=1&before=${ids[2]}`)).toEqual([ids[1]]);
  expect(await page('order=desc')).toEqual(ids.toReversed());
  expect(await page(`order=desc&after=${ids[1]}`)).toEqual([ids[0]]);
  const other = ids[0]?.replace(/:0$/, ':7');
  expect((await server.call('GET', `${run}/tool-calls?after=${other}`)).status).toBe(422);
});

test('the timeline of a run names each wait, in order', async () => {
  const run = await runWithCalls();
  const { body } = await server.call('GET', `${run}/timeline`);
  const kinds: string[] = body.intervals.map(({ kind }: { kind: string }) => kind);
  const ofStep = ['gathering', 'at_provider', 'ingest'];
  expect(kinds.filter((kind) => kind !== 'queued')).toEqual([
    ...[...ofStep, 'tools'],
    ...[...ofStep, 'tools'],
    ...ofStep,
  ]);
  expect(body.intervals.every(({ to }: { to: string | null }) => to !== null)).toBe(true);
  expect(body.is_cut).toBe(false);
});
