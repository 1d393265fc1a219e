import { expect, test } from 'vitest';
import { createUtf8Blocks } from '../../src/flows/submit-provider-batch/utf8-blocks.ts';

const TEXTS: readonly (readonly string[])[] = [
  ['plain'],
  [],
  ['', 'a', ''],
  ['äöü', '€', '😀', '"\\\n'],
  ['a lone \ud800', '\udc00 and another'],
  ['x'.repeat(700_000)],
  ['ü'.repeat(700_000), 'longer than a block'],
  ['€'.repeat(500_000)],
  ['after the long ones'],
];

test('texts stay unchanged after later texts are written', () => {
  const toBytes = createUtf8Blocks();
  const written = TEXTS.map((parts) => toBytes(parts));
  const wanted = TEXTS.map((parts) => Buffer.concat(parts.map((part) => Buffer.from(part))));
  expect(written.map((bytes, index) => bytes.equals(wanted[index]!))).toEqual(TEXTS.map(() => true));
});

test('short texts share their memory', () => {
  const toBytes = createUtf8Blocks();
  const memories = new Set(Array.from({ length: 300 }, () => toBytes(['{"a":', '1}']).buffer));
  expect(memories.size).toBe(1);
});
