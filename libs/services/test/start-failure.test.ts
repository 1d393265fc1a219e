import { expect, test } from 'vitest';
import { startFailure } from '../src/index.ts';

test('an unexpected error becomes one JSON line with its stack and without its other properties', () => {
  const line = startFailure(Object.assign(new TypeError('odd'), { command: 'AUTH hidden' }));
  expect(line).not.toMatch(/\n|hidden/);
  expect(JSON.parse(line)).toMatchObject({
    level: 60,
    msg: 'cannot start: odd',
    err: { name: 'TypeError', stack: expect.stringContaining('start-failure.test.ts') as unknown },
  });
  expect(JSON.parse(startFailure('thrown text'))).toMatchObject({ msg: 'cannot start: thrown text' });
});
