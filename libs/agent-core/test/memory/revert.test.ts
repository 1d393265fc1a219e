import { expect, test } from 'vitest';
import { decideRevert, type RevertDecision, type RevertFacts } from '../../src/memory/revert.ts';

const written: RevertFacts = {
  first: 3,
  last: 4,
  writes: 2,
  head: 4,
  is_as_before: false,
  is_deleted: false,
};
const made = { ...written, first: 1 };

test.each<[string, RevertFacts, RevertDecision, RevertDecision['kind']]>([
  ['only the batch has written', written, { kind: 'restore', revision: 2, forced: false }, 'restore'],
  ['others wrote after it', { ...written, head: 5 }, { kind: 'refuse', reason: 'edited' }, 'restore'],
  ['others wrote in between', { ...written, writes: 1 }, { kind: 'refuse', reason: 'edited' }, 'restore'],
  ['it is as before already', { ...written, head: 9, is_as_before: true }, { kind: 'none' }, 'none'],
  ['it was deleted', { ...written, is_deleted: true }, { kind: 'refuse', reason: 'deleted' }, 'refuse'],
  ['the batch made it', { ...made, writes: 4 }, { kind: 'delete', forced: false }, 'delete'],
  ['others edit what the batch made', made, { kind: 'refuse', reason: 'edited' }, 'delete'],
  ['what the batch made is gone', { ...made, is_deleted: true }, { kind: 'none' }, 'none'],
])('a block of which %s', (_name, facts, decision, forcedKind) => {
  expect(decideRevert(facts, false)).toEqual(decision);
  const forced = decideRevert(facts, true);
  expect(forced.kind).toBe(forcedKind);
  expect('forced' in forced && forced.forced).toBe(decision.kind === 'refuse' && forcedKind !== 'refuse');
});
