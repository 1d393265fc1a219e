import { NightshiftApiError, NightshiftUnreachableError } from '@nightshift/client';
import { expect, test } from 'vitest';
import { CommandError, EXIT, failureOf } from '../src/failure.ts';

test('a wrong key is told with the place that it comes from', () => {
  const error = new NightshiftApiError(401, { code: 'unauthorized', detail: 'The API key is not valid.' });
  const { message, exitCode } = failureOf(error, { apiKey: { source: 'environment' } });
  expect(message).toMatch(/not valid\. The key comes from NIGHTSHIFT_API_KEY\. Correct it there/);
  expect(exitCode).toBe(EXIT.usage);
});

test('an API that does not answer is exit code 3, and an old address of npm start is told', () => {
  const error = new NightshiftUnreachableError('http://127.0.0.1:9/v1', new Error('refused'));
  expect(failureOf(error)).toMatchObject({ exitCode: EXIT.unreachable, code: 'unreachable' });
  const url = { value: 'http://127.0.0.1:9', source: 'data folder' };
  expect(failureOf(error, { url }).message).toMatch(/last npm start here, which does not run any more/);
});

test('wrong fields are listed, the rest is counted', () => {
  const errors = Array.from({ length: 100 }, (_, line) => ({ path: `/lines/${line}`, message: 'bad' }));
  const error = new NightshiftApiError(422, {
    code: 'validation_failed',
    detail: 'Wrong lines.',
    errors,
    errors_total: 731,
  });
  const lines = failureOf(error).message.split('\n');
  expect(lines).toHaveLength(12);
  expect(lines.at(-1)).toBe('  … and 721 more');
});

test.each([
  [new CommandError('Wrong.'), 2],
  [new NightshiftApiError(404, { code: 'not_found', detail: 'There is no batch.' }), 2],
  [new NightshiftApiError(503, { code: 'not_ready', detail: 'Not now.' }), 3],
  [Object.assign(new Error('ENOENT'), { code: 'ENOENT', path: 'tasks.jsonl' }), 2],
  [new Error('Something else.'), 1],
])('%o has its exit code', (error, exitCode) => {
  expect(failureOf(error).exitCode).toBe(exitCode);
});
