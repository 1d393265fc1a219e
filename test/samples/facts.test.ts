import { expect, test } from 'vitest';
import { expectFacts } from '../../scripts/samples/facts.ts';
import type { Sample } from '../../scripts/samples/sample.ts';

function factsOf(text: string, version = '1.2.3'): string[] {
  const sample: Sample = {
    custom_id: 'a',
    package: 'a',
    line: '1.x',
    from: version,
    to: version,
    license: 'MIT',
    notes: [{ version, text }],
  };
  const { facts } = expectFacts(sample);
  return facts.filter(({ kind }) => kind !== 'latest').map(({ kind, fact }) => `${kind}: ${fact}`);
}

test('the latest version is a number, not a text', () => {
  const notes = ['1.9.0', '1.10.0', '1.2.0'].map((version) => ({ version, text: 'x' }));
  const row = expectFacts({
    custom_id: 'a',
    package: 'a',
    line: '1.x',
    from: '',
    to: '',
    license: 'MIT',
    notes,
  });
  expect(row.latest).toBe('1.10.0');
  expect(row.facts).toEqual([{ label: 'summary', kind: 'latest', version: '1.10.0', fact: '1.10.0' }]);
});

test.each([
  ['- BREAKING: the option is gone', ['breaking: BREAKING: the option is gone']],
  ['* This is a breaking change', ['breaking: This is a breaking change']],
  ['- feat(core)!: drop it', ['breaking: feat(core)!: drop it']],
  ['- no breaking changes', []],
  ['- a non-breaking change', []],
  ['- fix line breaking of long words', []],
  [
    '### Breaking Changes\n\n- one\n  more of one\n- two\n\n### Fixes\n- three',
    ['breaking: one', 'breaking: two'],
  ],
  ['**Breaking changes:**\n\n* one\n\n**fixes**\n\n* two', ['breaking: one']],
  ['Breaking Changes\n\n- one\n\nFeatures\n\n- two', ['breaking: one']],
  ['## Probably not breaking changes\n- one', []],
])('breaking changes of %j', (text, facts) => {
  expect(factsOf(text)).toEqual(facts);
});

test.each([
  ['- fix CVE-2024-12345', ['advisory: CVE-2024-12345']],
  ['- bump a (GHSA-8r5x-fm3f-whwj)', ['advisory: GHSA-8r5x-fm3f-whwj']],
  ['- a ReDoS vulnerability', ['security: a ReDoS vulnerability']],
  ['- avoid prototype pollution', ['security: avoid prototype pollution']],
  ['- set Content-Security-Policy', []],
  ['#### Security fixes\n- one\n#### Other\n- two', ['security: one']],
])('security entries of %j', (text, facts) => {
  expect(factsOf(text)).toEqual(facts);
});

test('a new major version is a fact, a first unstable one is not', () => {
  expect(factsOf('- rewritten', '2.0.0')).toEqual(['major: 2.0.0']);
  expect(factsOf('- rewritten', '0.0.0')).toEqual([]);
});

test('a long line is known by its start, and no character is torn', () => {
  expect(factsOf(`- security ${'😀'.repeat(200)}`)).toEqual([`security: security ${'😀'.repeat(111)}`]);
});
