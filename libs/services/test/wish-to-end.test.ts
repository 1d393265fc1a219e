import { expect, test } from 'vitest';
import { createWishToEnd } from '../src/index.ts';

test('a repeat within a second is a duplicate; a later request ends at once', () => {
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
