import { expect, test } from 'vitest';
import { checkMemories } from '../../scripts/samples/check.ts';
import type { Expected, Fact } from '../../scripts/samples/sample.ts';

const latest: Fact = { label: 'summary', kind: 'latest', version: '1.2.1', fact: '1.2.1' };
const breaking: Fact = { label: 'breaking_changes', kind: 'breaking', version: '1.2.1', fact: 'drop Node 4' };
const expected: Expected[] = [
  { custom_id: 'a', versions: ['1.2.1'], latest: '1.2.1', facts: [latest, breaking] },
];
const samples = [{ custom_id: 'a' }];

function missingFacts(memory: Record<string, string>): string[] {
  return checkMemories(samples, expected, new Map([['a', memory]])).missing.map(({ fact }) => fact);
}

test('a memory that holds every fact in its block misses none', () => {
  const memories = new Map([['a', { summary: 'Latest: 1.2.1.', breaking_changes: '- drop Node 4' }]]);
  expect(checkMemories(samples, expected, memories)).toEqual({ checked: 2, missing: [] });
});

test('a fact in another block is missing from its own', () => {
  expect(missingFacts({ summary: '1.2.1 drop Node 4', breaking_changes: '' })).toEqual(['drop Node 4']);
});

test.each(['1.2.10', '11.2.1', '0.1.2.1', '1.2.1-beta', 'x1.2.1', '1.2.1.5'])(
  '%s is not version 1.2.1',
  (summary) => {
    expect(missingFacts({ summary, breaking_changes: 'drop Node 4' })).toEqual(['1.2.1']);
  },
);

test.each(['1.2.1', '1.2.10, 1.2.1.', '(1.2.1)', 'to 1.2.1: more'])('%j names version 1.2.1', (summary) => {
  expect(missingFacts({ summary, breaking_changes: 'drop Node 4' })).toEqual([]);
});

test('a sample without memories misses all of its facts', () => {
  const { checked, missing } = checkMemories(samples, expected, new Map());
  expect(checked).toBe(2);
  expect(missing).toEqual([
    { custom_id: 'a', label: 'summary', fact: '1.2.1' },
    { custom_id: 'a', label: 'breaking_changes', fact: 'drop Node 4' },
  ]);
});

test('a sample without expected facts is an error, not a success', () => {
  expect(() => checkMemories([{ custom_id: 'b' }], expected, new Map())).toThrow(/b: has no expected facts/);
});
