import { expect, test } from 'vitest';
import { decideRevert, type RevertDecision, type RevertFacts } from '../../src/memory/revert.ts';

const written: RevertFacts = {
  first: 3,
  last: 4,
  writes: 2,
  is_as_written: true,
  is_as_before: false,
  is_anothers: false,
  is_deleted: false,
};
const made = { ...written, first: 1 };

test.each<[string, RevertFacts, RevertDecision, RevertDecision['kind']]>([
  ['only the batch has written', written, { kind: 'restore', revision: 2, forced: false }, 'restore'],
  [
    'others wrote after it',
    { ...written, is_as_written: false },
    { kind: 'refuse', reason: 'edited' },
    'restore',
  ],
  ['others wrote in between', { ...written, writes: 1 }, { kind: 'refuse', reason: 'edited' }, 'restore'],
  [
    'it is as before already',
    { ...written, is_as_written: false, is_as_before: true },
    { kind: 'none' },
    'none',
  ],
  [
    'another batch wrote the text before it',
    { ...written, is_as_written: false, is_as_before: true, is_anothers: true },
    { kind: 'refuse', reason: 'edited' },
    'restore',
  ],
  [
    'another batch wrote the same words',
    { ...written, is_anothers: true },
    { kind: 'refuse', reason: 'edited' },
    'restore',
  ],
  ['it was deleted', { ...written, is_deleted: true }, { kind: 'refuse', reason: 'deleted' }, 'refuse'],
  [
    'others edit the batch’s new block, after it',
    { ...made, writes: 4, is_as_written: false },
    { kind: 'refuse', reason: 'edited' },
    'delete',
  ],
  ['the batch made it', { ...made, writes: 4 }, { kind: 'delete', forced: false }, 'delete'],
  ['others edit the batch’s new block', made, { kind: 'refuse', reason: 'edited' }, 'delete'],
  ['the batch’s new block is gone', { ...made, is_deleted: true }, { kind: 'none' }, 'none'],
])('a block of which %s', (_name, facts, decision, forcedKind) => {
  expect(decideRevert(facts, false)).toEqual(decision);
  const forced = decideRevert(facts, true);
  expect(forced.kind).toBe(forcedKind);
  expect('forced' in forced && forced.forced).toBe(decision.kind === 'refuse' && forcedKind !== 'refuse');
});
