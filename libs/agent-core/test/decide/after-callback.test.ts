import { describe, expect, test } from 'vitest';
import { decideAfterCallback, type CallbackOutcome } from '../../src/decide/after-callback.ts';

const answered = (status: number): CallbackOutcome => ({ kind: 'answered', status });
const unreachable = (permanent: boolean): CallbackOutcome => ({
  kind: 'unreachable',
  reason: 'connection refused',
  permanent,
});

describe('after the delivery of a callback', () => {
  test.each([200, 202, 204, 299])('%i is delivered, however many attempts it took', (status) => {
    expect(decideAfterCallback(answered(status), 1)).toEqual({ kind: 'delivered' });
    expect(decideAfterCallback(answered(status), 99)).toEqual({ kind: 'delivered' });
  });

  test.each([199, 300, 301, 308, 400, 404, 429, 500, 503])(
    '%i is retried, and its status reported',
    (status) => {
      expect(decideAfterCallback(answered(status), 1)).toEqual({
        kind: 'try_again',
        delay_ms: 5_000,
        error: `answered with status ${status}`,
      });
    },
  );

  test('no response is retried, unless the address may not be called', () => {
    const error = 'connection refused';
    expect(decideAfterCallback(unreachable(false), 1)).toEqual({ kind: 'try_again', delay_ms: 5_000, error });
    expect(decideAfterCallback(unreachable(true), 1)).toEqual({ kind: 'give_up', error });
  });

  test('410 ends it at once: the receiver is gone', () => {
    expect(decideAfterCallback(answered(410), 1)).toEqual({
      kind: 'give_up',
      error: 'answered with status 410',
    });
  });

  test('the delays grow to a day and add up to more than three, then it is given up', () => {
    const waits: number[] = [];
    for (let attempts = 1; ; attempts++) {
      const decision = decideAfterCallback(answered(500), attempts);
      if (decision.kind !== 'try_again') {
        expect(decision).toEqual({ kind: 'give_up', error: 'answered with status 500' });
        break;
      }
      waits.push(decision.delay_ms);
    }
    expect(waits).toEqual(waits.toSorted((a, b) => a - b));
    expect(waits.at(-1)).toBe(86_400_000);
    expect(waits.reduce((sum, wait) => sum + wait, 0)).toBeGreaterThan(3 * 86_400_000);
  });
});
