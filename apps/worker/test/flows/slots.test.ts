import { expect, test } from 'vitest';
import { createSlots } from '../../src/flow-parts/slots.ts';

test('the number of slots limits the work, the next begins in order, and a failure frees its slot', async () => {
  const slots = createSlots(2);
  const begun: number[] = [];
  const work = [0, 1, 2, 3].map(() => Promise.withResolvers<void>());
  const ends = work.map(({ promise }, place) =>
    slots
      .run(() => {
        begun.push(place);
        return promise;
      })
      .catch((error: unknown) => String(error)),
  );
  await Promise.resolve();
  expect(begun).toEqual([0, 1]);
  work[1]!.reject(new Error('broke'));
  expect(await ends[1]).toBe('Error: broke');
  expect(begun).toEqual([0, 1, 2]);
  work[0]!.resolve();
  await ends[0];
  expect(begun).toEqual([0, 1, 2, 3]);
  work[2]!.resolve();
  work[3]!.resolve();
  await Promise.all(ends);
  expect(await slots.run(() => Promise.resolve('free'))).toBe('free');
});
