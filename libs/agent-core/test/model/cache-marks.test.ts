import { expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { fromMarkByte, NO_MARKS, toMarkByte } from '../../src/model/cache-marks.ts';

test('marks survive their byte; none are 0', () => {
  const marks = fc.record({ static: fc.boolean(), memory: fc.boolean(), end: fc.boolean() });
  fc.assert(
    fc.property(marks, (given) => {
      expect(fromMarkByte(toMarkByte(given))).toEqual(given);
    }),
  );
  expect(toMarkByte(NO_MARKS)).toBe(0);
});
