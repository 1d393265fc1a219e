import { NightshiftError } from '@nightshift/agent-core';
import pg from 'pg';
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
  [
    'a fault of our own with a code of Node',
    Object.assign(new TypeError('odd'), { code: 'ERR_INVALID_ARG_TYPE' }),
    'poison',
  ],
  [
    'a certificate that has run out',
    Object.assign(new Error('expired'), { code: 'CERT_HAS_EXPIRED' }),
    'later',
  ],
  ['a thrown null', null, 'poison'],
  ['a thrown undefined', undefined, 'poison'],
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

test.each(['ECONNRESET', 'EAI_AGAIN', 'ENETUNREACH', 'EADDRNOTAVAIL', 'ENOENT', 'EMFILE'])(
  'a database that cannot be had for %s says nothing of the rows, alone or among the errors of several addresses',
  (code) => {
    const error = Object.assign(new Error(''), { code, errno: -1, syscall: 'connect' });
    expect(judgeError(error)).toBe('later');
    expect(judgeError({ code })).toBe('later');
    expect(judgeError(Object.assign(new AggregateError([error, error]), { code }))).toBe('later');
    expect(judgeError(new AggregateError([error, error]))).toBe('later');
  },
);

test('a name that nobody can look up says nothing of the rows', async () => {
  const pool = new pg.Pool({ host: 'no-such-host.invalid', max: 1 });
  const error: unknown = await pool.query('select 1').catch((thrown: unknown) => thrown);
  expect(judgeError(error)).toBe('later');
  await pool.end();
});
