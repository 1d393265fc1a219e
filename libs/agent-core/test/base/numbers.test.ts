import { expect, test } from 'vitest';
import { findInexact, keepsText } from '../../src/base/numbers.ts';

test.each([
  '0',
  '-1.5',
  '1e3',
  '9007199254740991',
  '-9007199254740991',
  '0.12345678901234567890',
  '1e21',
  '1.7976931348623157e308',
  '1E-400',
])('%s is kept', (text) => {
  expect(keepsText(text)).toBe(true);
  for (const around of [text, `{"a":${text}}`]) expect(findInexact(around)).toBeNull();
});

test.each([
  '9007199254740993',
  '-12345678901234567890',
  '12345678901234567890.5',
  '1234567890123456789012345',
  '1e20',
  '1e400',
  '-1E400',
])('%s is not kept', (text) => {
  expect(keepsText(text)).toBe(false);
  for (const around of [
    text,
    `{"a":${text}}`,
    `[${text}]`,
    `["x", ${text}]`,
    `{"a": "\\"1\\\\", "b":\n${text} }`,
  ]) {
    expect(findInexact(around)).toBe(around.indexOf(text));
  }
});

test.each([
  '{"a":"12345678901234567890"}',
  '{"a":": 12345678901234567890, [1e400]"}',
  '{"a":"\\" 12345678901234567890"}',
  '{"12345678901234567890, 1e400":1, " 12345678901234567890":-2}',
  '{"id":"agent-0199d2a4-8f3e-7c1b-9a55-3d2f6b7c8e90"}',
])('digits in a text are none: %s', (text) => {
  expect(findInexact(text)).toBeNull();
});
