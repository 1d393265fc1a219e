import { expect, test } from 'vitest';
import { errorTypeLabel, lastError } from '../../src/decide/last-error.ts';

test('the error of a failed attempt is in the words of the provider', () => {
  expect(lastError('overloaded_error', 'Overloaded')).toEqual({
    type: 'overloaded_error',
    message: 'Overloaded',
  });
});

test('it is cut, and cut between characters', () => {
  const { type, message } = lastError('t'.repeat(200), `${'m'.repeat(498)}\u{1F600}${'m'.repeat(9)}`);
  expect(type).toBe(`${'t'.repeat(99)}…`);
  expect(message).toHaveLength(500);
  expect(message.isWellFormed()).toBe(true);
  expect(lastError('t'.repeat(100), 'm'.repeat(500)).message).toBe('m'.repeat(500));
});

test('it shows no key', () => {
  expect(lastError('e', 'the key sk-ant-api03-AbC_1-x is unknown').message).toBe('the key sk-… is unknown');
});

test('it is counted under its name, and under a common one if that is no name', () => {
  expect(['api_error', 'Api', '', '1x', 'x'.repeat(65), null, undefined].map(errorTypeLabel)).toEqual([
    'api_error',
    ...Array.from({ length: 6 }, () => 'other'),
  ]);
});
