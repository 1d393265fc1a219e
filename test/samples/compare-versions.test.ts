import { expect, test } from 'vitest';
import { description, parameters, run, sideEffects } from '../../samples/tools/compare_versions.ts';

test('versions are sorted by precedence, oldest first', () => {
  const sorted = [
    '0.9.0',
    '1.0.0-alpha',
    '1.0.0-alpha.1',
    '1.0.0-alpha.beta',
    '1.0.0-beta',
    '1.0.0-beta.2',
    '1.0.0-beta.11',
    '1.0.0-rc.1',
    '1.0.0',
    '1.2.0',
    '1.10.0',
    '99999999999999999999.0.0',
  ];
  expect(run({ versions: sorted.toReversed() })).toEqual({ sorted, latest: sorted.at(-1), invalid: [] });
});

test('an invalid version is reported and left out', () => {
  const versions = ['1.2', 'latest', '01.2.3', ' v1.2.3 ', '1.2.3-', ''];
  expect(run({ versions })).toEqual({
    sorted: ['v1.2.3'],
    latest: 'v1.2.3',
    invalid: ['1.2', 'latest', '01.2.3', '1.2.3-', ''],
  });
});

test('the latest is null without a version', () => {
  expect(run({ versions: ['x'] })).toEqual({ sorted: [], latest: null, invalid: ['x'] });
});

test('versions that differ in build metadata keep their order', () => {
  expect(run({ versions: ['1.0.0+b', '1.0.0+a'] }).sorted).toEqual(['1.0.0+b', '1.0.0+a']);
});

test('an argument of a wrong type is refused with its name', () => {
  expect(() => run({ versions: '1.0.0' })).toThrow(/versions: expected a list/);
});

test('the module exports its description and its side effects', () => {
  expect(description).not.toBe('');
  expect(parameters).toMatchObject({ type: 'object', required: ['versions'], additionalProperties: false });
  expect(sideEffects).toBe('none');
});
