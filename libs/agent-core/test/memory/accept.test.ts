import { expect, test } from 'vitest';
import { planAccept, type HeldFacts, type LabelInUse } from '../../src/memory/accept.ts';
import { cpuMsOf } from '../../../../test/cpu-time.ts';

function revised(agent_id: string, block_id: string, rest: Partial<HeldFacts> = {}): HeldFacts {
  return {
    agent_id,
    block_id,
    kind: 'revised',
    is_deleted: false,
    is_unchanged: true,
    is_read_only: false,
    is_over_limit: false,
    is_written: true,
    label: block_id,
    base_label: block_id,
    ...rest,
  };
}
const created = (agent_id: string, label: string): HeldFacts =>
  revised(agent_id, `new ${label}`, { kind: 'created', label, base_label: null });
/** Makes agents with blocks of these labels; blocks are named by their first label. */
const uses = (agent_id: string, ...labels: readonly string[]): LabelInUse[] =>
  labels.map((label) => ({ agent_id, block_id: label, label }));

test('untouched changes are accepted; changes of edited or deleted blocks are stale', () => {
  expect(
    planAccept(
      [
        revised('a', 'x'),
        revised('b', 'y', { is_unchanged: false }),
        revised('c', 'z', { is_unchanged: false, is_deleted: true }),
        revised('d', 'w', { kind: 'detached' }),
        revised('e', 'v', { kind: 'dropped' }),
      ],
      [],
    ),
  ).toEqual([null, 'edited', 'deleted', null, null]);
});

test('a block that is now read-only keeps its text, and so does a block whose limit is now too low', () => {
  const held = [
    revised('a', 'x', { is_read_only: true, is_over_limit: true }),
    revised('b', 'y', { kind: 'detached', is_read_only: true }),
    revised('c', 'z', { is_over_limit: true }),
    revised('d', 'z'),
    revised('e', 'w', { is_unchanged: false, is_read_only: true }),
  ];
  expect(planAccept(held, [])).toEqual(['read_only', 'read_only', 'over_limit', null, 'edited']);
});

test('a shared block takes the changes of one agent, and may be detached by others', () => {
  const held = [revised('a', 'x'), revised('b', 'x'), revised('c', 'x', { kind: 'detached' })];
  expect(planAccept(held, [])).toEqual([null, 'edited', null]);
});

test('a change without effect, or refused, does not use up a shared block', () => {
  const undone = [revised('a', 'x', { is_written: false }), revised('b', 'x')];
  expect(planAccept(undone, [])).toEqual([null, null]);
  const renamed = [revised('a', 'x', { label: 'facts' }), revised('b', 'x'), revised('c', 'x')];
  const labels = [...uses('a', 'x'), ...uses('b', 'x', 'facts'), ...uses('c', 'x')];
  expect(planAccept(renamed, labels)).toEqual(['label_taken', null, 'edited']);
});

test('of thousands that would give a shared block a used label, all are refused at once', () => {
  const agents = Array.from({ length: 5_000 }, (_, index) => `agent ${index}`);
  const renamed = agents.map((agent) => revised(agent, 'x', { label: 'facts' }));
  const labels = [...agents.flatMap((agent) => uses(agent, 'x')), ...uses('other', 'x', 'facts')];
  const refuse = () => expect(new Set(planAccept(renamed, labels))).toEqual(new Set(['label_taken']));
  expect(cpuMsOf(refuse)).toBeLessThan(5_000);
});

test('one accept may swap, hand on and free labels', () => {
  const swap = [revised('a', 'x', { label: 'y' }), revised('a', 'y', { label: 'x' })];
  expect(planAccept(swap, uses('a', 'x', 'y'))).toEqual([null, null]);
  const handed = [revised('a', 'x', { label: 'old' }), created('a', 'x')];
  expect(planAccept(handed, uses('a', 'x'))).toEqual([null, null]);
  const freed = [revised('a', 'x', { kind: 'detached' }), created('a', 'x')];
  expect(planAccept(freed, uses('a', 'x'))).toEqual([null, null]);
});

test('a label that an agent uses by now is refused, also for another agent of the block', () => {
  expect(planAccept([created('a', 'x')], uses('a', 'x'))).toEqual(['label_taken']);
  const shared = [...uses('a', 'x'), ...uses('b', 'x', 'y')];
  expect(planAccept([revised('a', 'x', { label: 'y' })], shared)).toEqual(['label_taken']);
});

test('a change that needs a label which is not freed is stale too', () => {
  const held = [revised('a', 'x', { label: 'y' }), created('a', 'x')];
  const labels = [...uses('a', 'x'), ...uses('b', 'x', 'y')];
  expect(planAccept(held, labels)).toEqual(['label_taken', 'label_taken']);
});
