import type {} from '../../../../test/global-setup.ts';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const BAD = 'a request that fails for ever';

/** Lets every request whose input holds {@link BAD} fail. */
function failForEver(error_type = 'overloaded_error', message = 'Overloaded'): void {
  house.simulator.control.addRule({
    id: 'for ever',
    op: 'request',
    match: { contains: BAD },
    outcome: { type: 'errored', error_type, message },
  });
}

const inputs = (good: number, bad: number) => [
  ...Array.from({ length: good }, () => ({ input: 'Say something.' })),
  ...Array.from({ length: bad }, () => ({ input: BAD })),
];

test('requests that fail for ever among others end their runs after the usual attempts', async () => {
  failForEver();
  const batch = await house.submit(inputs(60, 12));
  await house.drive(house.worker({ settings: { chunk_lines: 1_000 } }), { hasten: true });
  const runs = await house.runsOf(batch.id);
  expect(runs.slice(0, 60).every(({ state }) => state === 'completed')).toBe(true);
  for (const run of runs.slice(60)) {
    expect(run).toMatchObject({
      state: 'failed',
      stop_reason: 'provider_error',
      attempt: 4,
      error: { type: 'overloaded_error', message: 'Overloaded' },
    });
  }
  expect(await auditInvariants(house.database.db)).toEqual([]);
});
