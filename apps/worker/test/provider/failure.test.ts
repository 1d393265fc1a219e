import { APIError } from '@anthropic-ai/sdk';
import { describe, expect, test } from 'vitest';
import { beginExchange, type Exchange } from '../../src/provider/exchange.ts';
import { failureOf, reasonOf, redact } from '../../src/provider/failure.ts';
import { API_KEY, errorBody } from './scripted-server.ts';

/** Builds the SDK's error for an answer. */
const answered = (status: number, body: unknown, headers?: Headers): APIError =>
  new APIError(status, body as object, undefined, headers);
const withCode = (message: string, code: string): Error => Object.assign(new Error(message), { code });

function during<T>(work: (exchange: Exchange) => T): T {
  const exchange = beginExchange(60_000);
  try {
    return work(exchange);
  } finally {
    exchange.close();
  }
}
const failed = (error: unknown) => during((exchange) => failureOf(error, exchange, API_KEY));

describe('an answer has the shape of the provider', () => {
  test.each<[string, number, unknown, boolean]>([
    ['in its own shape', 400, errorBody('invalid_request_error'), true],
    ['in the shorter shape of its edge', 413, { error: { type: 'request_too_large' } }, true],
    ['not in the shorter shape with another status', 400, { error: { type: 'request_too_large' } }, false],
    ['not with another outer type', 400, { type: 'message', error: { type: 'x' } }, false],
    ['not with an inner type that is no text', 400, { type: 'error', error: { type: 5 } }, false],
    ['not with a text as error', 400, { type: 'error', error: 'no' }, false],
    ['not without an error', 413, { type: 'error' }, false],
    ['not as a list', 413, [{ error: { type: 'x' } }], false],
    ['not as a text', 413, 'no', false],
    ['not without a body', 413, undefined, false],
  ])('%s', (_what, status, body, has_provider_shape) => {
    expect(failed(answered(status, body))).toMatchObject({ status, has_provider_shape });
  });

  test('and yields its type, code, message and wait', () => {
    const body = errorBody('rate_limit_error', { error_code: 'enforced_spend_limit_reached' });
    expect(failed(answered(429, body, new Headers({ 'retry-after': '7' })))).toEqual({
      status: 429,
      error_type: 'rate_limit_error',
      error_code: 'enforced_spend_limit_reached',
      has_provider_shape: true,
      retry_after_ms: 7_000,
      message: 'the rate_limit_error',
    });
    expect(failed(answered(429, body))).toMatchObject({ retry_after_ms: null });
  });

  test.each([
    [
      'an error without words',
      { type: 'error', error: { type: 'x' } },
      '{"type":"error","error":{"type":"x"}}',
    ],
    ['a body that is no object', [404], '[404]'],
    ['no body', undefined, 'status code (no body)'],
  ])('%s becomes the message, without its status', (_what, body, message) => {
    expect(failed(answered(404, body))).toMatchObject({ status: 404, message });
  });
});

describe('a call without an answer', () => {
  test('has no status, shape or wait, but a reason', () => {
    const none = {
      status: null,
      error_type: null,
      error_code: null,
      has_provider_shape: false,
      retry_after_ms: null,
    };
    const lost = new APIError(undefined, undefined, 'Connection error.', undefined);
    expect(failed(lost)).toEqual({ ...none, message: 'Connection error' });
    expect(failed(withCode('gone', 'ENOENT'))).toEqual({ ...none, message: 'gone: ENOENT' });
  });

  test('aborted by the caller is described so, whatever the error', () => {
    const caller = new AbortController();
    const exchange = beginExchange(60_000, caller.signal);
    caller.abort();
    expect(failureOf(new Error('aborted'), exchange, API_KEY).message).toBe('aborted by the caller');
    const late = beginExchange(60_000, caller.signal);
    expect(late.signal.aborted).toBe(true);
    for (const each of [exchange, late]) each.close();
  });
});

describe('a reason', () => {
  test.each<[string, unknown, string]>([
    [
      'names each cause once, and a code that no message has',
      new Error('fetch failed.', { cause: withCode('other side closed', 'UND_ERR_SOCKET') }),
      'fetch failed: other side closed: UND_ERR_SOCKET',
    ],
    [
      'repeats no code that a message has',
      new Error('fetch failed', { cause: withCode('read ECONNRESET', 'ECONNRESET') }),
      'fetch failed: read ECONNRESET',
    ],
    ['repeats no message', new Error('lost', { cause: new Error('lost') }), 'lost'],
    ['is the code without a message', withCode('', 'EPIPE'), 'EPIPE'],
    ['is the name without code and message', new TypeError(), 'TypeError'],
    ['keeps a dot in the middle', new Error('a. b.'), 'a. b'],
    ['is a thrown value as text', 'no error', 'no error'],
  ])('%s', (_what, error, reason) => {
    expect(reasonOf(error)).toBe(reason);
  });

  test('ends with the fifth cause, since a chain may be circular', () => {
    const chain = [6, 5, 4, 3, 2, 1].reduce<Error | undefined>(
      (cause, at) => new Error(`cause ${at}`, { cause }),
      undefined,
    );
    expect(reasonOf(chain)).toBe('cause 1: cause 2: cause 3: cause 4: cause 5');
  });
});

test('a text is cut to 500 characters after the key is removed, and can be stored', () => {
  expect(redact(`${'x'.repeat(490)}${API_KEY}${'y'.repeat(100)}`, API_KEY)).toBe(
    `${'x'.repeat(490)}[key]${'y'.repeat(5)}`,
  );
  expect(redact(`${API_KEY} and ${API_KEY}`, API_KEY)).toBe('[key] and [key]');
  expect(redact('a\u0000b', API_KEY)).not.toContain('\u0000');
});
