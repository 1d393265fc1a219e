import { expect, test } from 'vitest';
import { createWishToEnd } from '../src/index.ts';

test('a wish that arrives twice within a second is one; a later one is to end at once', () => {
  let now = 5;
  const wish = createWishToEnd(() => now);
  expect(wish.isTold()).toBe(false);
  expect(wish.tell()).toBe('first');
  expect(wish.isTold()).toBe(true);
  now += 1_000;
  expect(wish.tell()).toBe('again');
  now += 1;
  expect(wish.tell()).toBe('at once');
});
