import { describe, expect, test } from 'vitest';
import { agentsToHold, type MeasuredChange } from '../../src/memory/hold-rule.ts';
import type { LabelInUse } from '../../src/memory/accept.ts';

const change = (agent_id: string, rest: Partial<MeasuredChange> = {}): MeasuredChange => ({
  agent_id,
  block_id: `block of ${agent_id}`,
  kind: 'revised',
  is_deleted: false,
  is_unchanged: true,
  is_read_only: false,
  is_over_limit: false,
  is_written: true,
  label: 'summary',
  base_label: 'summary',
  shrinks_by: 0,
  ...rest,
});
const shared = { block_id: 'shared' };

describe('with the rule that holds what shrinks by more than 0.6', () => {
  test.each<[string, readonly MeasuredChange[], readonly string[], (readonly LabelInUse[])?]>([
    ['changes that shrink nothing are accepted', [change('a'), change('b')], []],
    ['the exact part is accepted', [change('a', { shrinks_by: 0.6 })], []],
    ['more than the part is held', [change('a', { shrinks_by: 0.61 }), change('b')], ['a']],
    ['one change holds all of its agent', [change('a'), change('a', { ...shared, shrinks_by: 1 })], ['a']],
    [
      'a conflict holds all of its agent',
      [change('a'), change('a', { ...shared, is_unchanged: false })],
      ['a'],
    ],
    ['of a shared block the first agent’s are accepted', [change('a', shared), change('b', shared)], ['b']],
    [
      'a held agent does not take a shared block',
      [change('a', { ...shared, shrinks_by: 1 }), change('b', shared)],
      ['a'],
    ],
    [
      'an agent in conflict does not take a shared block either',
      [change('a', shared), change('a', { is_deleted: true }), change('b', shared), change('c', shared)],
      ['a', 'c'],
    ],
    [
      'a taken label holds its agent',
      [change('a', { kind: 'created', base_label: null, label: 'plans' }), change('b')],
      ['a'],
      [{ agent_id: 'a', block_id: 'x', label: 'plans' }],
    ],
  ])('%s', (_what, held, expected, labels = []) => {
    expect([...agentsToHold(held, labels, { shrinks_by: 0.6 })]).toEqual(expected);
  });

  test('a rule of 1 holds conflicts alone', () => {
    const gone = change('a', { kind: 'detached', shrinks_by: 1 });
    expect([...agentsToHold([gone, change('b', { is_deleted: true })], [], { shrinks_by: 1 })]).toEqual([
      'b',
    ]);
  });
});
