import { NightshiftError } from '@nightshift/agent-core';
import { expect, test } from 'vitest';
import { isBrokenConstraint, judgeError } from '../../src/judge-error.ts';

test.each([
  ['a commit that found a row moved on', new NightshiftError('stale', 'moved on'), 'poison'],
  ['a lease that was lost', new NightshiftError('fenced', 'lost'), 'later'],
  ['a tool host that is away', new NightshiftError('tool_host_unavailable', 'away'), 'later'],
  ['a deadlock', { code: '40P01' }, 'again'],
  ['a broken constraint', { code: '23505' }, 'poison'],
  ['a missing column', { code: '42703' }, 'later'],
  ['a cut connection', { code: 'ECONNRESET' }, 'later'],
  ['a fault of our own', new Error('odd'), 'poison'],
])('%s is judged', (_name, error, judgement) => {
  expect(judgeError(error)).toBe(judgement);
});

test.each([
  ['a label that is taken', { code: '23505' }, true],
  ['a value that is too long', { code: '22001' }, false],
  ['a word of our own', new NightshiftError('stale', 'moved on'), false],
  ['an error without a code', new Error('odd'), false],
])('%s breaks a constraint or not', (_name, error, broken) => {
  expect(isBrokenConstraint(error)).toBe(broken);
});
