import { NightshiftError } from '@nightshift/agent-core';
import pg from 'pg';
import { expect, test } from 'vitest';
import { isBrokenConstraint, judgeError } from '../../src/judge-error.ts';

test.each([
  ['a commit of a row that has changed', new NightshiftError('stale', 'moved on'), 'poison'],
  ['a lost lease', new NightshiftError('fenced', 'lost'), 'later'],
  ['a deadlock', { code: '40P01' }, 'again'],
  ['a broken constraint', { code: '23505' }, 'poison'],
  ['a missing column', { code: '42703' }, 'later'],
  ['a cut connection', { code: 'ECONNRESET' }, 'later'],
  ['an error of our own code', new Error('odd'), 'poison'],
  [
    'an error of our own code with a code of Node',
    Object.assign(new TypeError('odd'), { code: 'ERR_INVALID_ARG_TYPE' }),
    'poison',
  ],
  ['an expired certificate', Object.assign(new Error('expired'), { code: 'CERT_HAS_EXPIRED' }), 'later'],
  ['a thrown null', null, 'poison'],
  ['a thrown undefined', undefined, 'poison'],
])('%s is classified', (_name, error, judgement) => {
  expect(judgeError(error)).toBe(judgement);
});

test.each([
  ['a used label', { code: '23505' }, true],
  ['a too long value', { code: '22001' }, false],
  ['an error of our own', new NightshiftError('stale', 'moved on'), false],
  ['an error without a code', new Error('odd'), false],
])('%s is a broken constraint or not', (_name, error, broken) => {
  expect(isBrokenConstraint(error)).toBe(broken);
});

test.each(['ECONNRESET', 'EAI_AGAIN', 'ENETUNREACH', 'EADDRNOTAVAIL', 'ENOENT', 'EMFILE'])(
  'a database unreachable for %s does not blame the rows, alone or in an error for several addresses',
  (code) => {
    const error = Object.assign(new Error(''), { code, errno: -1, syscall: 'connect' });
    expect(judgeError(error)).toBe('later');
    expect(judgeError({ code })).toBe('later');
    expect(judgeError(Object.assign(new AggregateError([error, error]), { code }))).toBe('later');
    expect(judgeError(new AggregateError([error, error]))).toBe('later');
  },
);

test('a host name that cannot be resolved does not blame the rows', async () => {
  const pool = new pg.Pool({ host: 'no-such-host.invalid', max: 1 });
  const error: unknown = await pool.query('select 1').catch((thrown: unknown) => thrown);
  expect(judgeError(error)).toBe('later');
  await pool.end();
});
