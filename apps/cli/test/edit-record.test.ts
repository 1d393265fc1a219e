import { describe, expect, test } from 'vitest';
import { changedFields, parseSettings } from '../src/edit-record.ts';

const record = {
  id: 'schedule-1',
  fields: { name: 'nightly', tags: ['a', 'b'], ends_at: '2026-12-01T00:00:00Z' },
  nullable: ['ends_at'],
  also: ['max_tokens'],
};

describe('an edit sends the fields that differ', () => {
  test.each([
    ['nothing', { ...record.fields }, {}],
    ['a text', { name: 'weekly', tags: ['a', 'b'] }, { name: 'weekly' }],
    ['a list', { tags: ['b', 'a'] }, { tags: ['b', 'a'] }],
    ['null, where it is a value', { ends_at: null }, { ends_at: null }],
    ['a field that is not shown', { max_tokens: 5 }, { max_tokens: 5 }],
  ])('%s', (_name, wanted, changes) => {
    expect(changedFields(record, wanted)).toEqual(changes);
  });

  test('a field that cannot be changed is named, with those that can', () => {
    expect(() => changedFields(record, { nam: 'x' })).toThrow(
      /nam cannot be changed here.*name, tags, ends_at/,
    );
  });

  test('null is refused where the API would take it for no change', () => {
    expect(() => changedFields(record, { name: null })).toThrow(/name of schedule-1 cannot be null/);
  });
});

describe('--set takes JSON, and everything else as a text', () => {
  test.each([
    ['name=nightly run', { name: 'nightly run' }],
    ['system=a=b', { system: 'a=b' }],
    ['tags=["x"]', { tags: ['x'] }],
    ['hidden=true', { hidden: true }],
    ['ends_at=null', { ends_at: null }],
    ['name=', { name: '' }],
  ])('%s', (setting, fields) => {
    expect(parseSettings([setting])).toEqual(fields);
  });

  test.each(['name', '=x'])('%j is refused with an example', (setting) => {
    expect(() => parseSettings([setting])).toThrow(/Write field=value/);
  });
});
