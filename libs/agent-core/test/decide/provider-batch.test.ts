import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { decideAfterPoll, POLL_POLICY_DEFAULT, type RemoteFacts } from '../../src/decide/after-poll.ts';
import {
  ACCOUNT_TROUBLE,
  decideAfterRefusal,
  PAUSE_REASONS,
  REFUSAL_POLICY_DEFAULT,
} from '../../src/decide/after-refusal.ts';
import { LOOK_POLICY_DEFAULT } from '../../src/decide/next-look.ts';
import { BREAKER_POLICY_DEFAULT, breakerRestMs } from '../../src/decide/breaker.ts';
import type { RefusalCause } from '../../src/model/refusal-cause.ts';

const NOON = Date.parse('2026-11-20T12:00:00Z');
const at = (ms: number): Date => new Date(NOON + ms);
const MINUTE = 60_000;

describe('after a poll of a submitted batch', () => {
  const policy = POLL_POLICY_DEFAULT;
  const row = { submitted_at: at(0), missing_since: null, sent_ms_ago: null };
  const remote = (processing_status: RemoteFacts['processing_status'], has_results = false): RemoteFacts => ({
    processing_status,
    has_results,
  });

  test.each([true, false])('an ended batch is ended, results announced: %s', (has_results) => {
    expect(decideAfterPoll(row, remote('ended', has_results), at(1), policy)).toEqual({ kind: 'ended' });
  });

  test.each([
    ['in_progress', 0, policy.poll_interval_ms],
    ['canceling', 0, policy.poll_interval_ms],
    ['in_progress', 60 * MINUTE, policy.poll_interval_ms],
    ['in_progress', 60 * MINUTE + 1, policy.poll_interval_ms_max],
    ['canceling', 24 * 60 * MINUTE, policy.poll_interval_ms_max],
    ['in_progress', -5 * MINUTE, policy.poll_interval_ms],
  ] as const)('a batch that is %s after %i ms is polled again in %i ms', (status, ageMs, delay_ms) => {
    expect(decideAfterPoll(row, remote(status), at(ageMs), policy)).toEqual({
      kind: 'wait',
      delay_ms,
      missing: false,
    });
  });

  test('a batch is polled by the turnarounds seen where a policy of looks is given', () => {
    const adaptive = { ...policy, looks: LOOK_POLICY_DEFAULT };
    const seen = Array<number>(20).fill(5 * MINUTE);
    const decide = (ageMs: number) => decideAfterPoll(row, remote('in_progress'), at(ageMs), adaptive, seen);
    expect(decide(5 * MINUTE)).toEqual({ kind: 'wait', delay_ms: 5_000, missing: false });
    expect(decide(MINUTE)).toMatchObject({ kind: 'wait', delay_ms: expect.closeTo(215_000, -4) as number });
    expect(decideAfterPoll(row, null, at(0), adaptive, seen)).toMatchObject({
      delay_ms: 60_000,
      missing: true,
    });
  });

  test.each([
    ['for the first time', null, 'wait'],
    ['for less than the grace', at(0), 'wait'],
    ['for the grace', at(-policy.missing_grace_ms + 1000), 'lost'],
    ['for days', at(-72 * 60 * MINUTE), 'lost'],
  ])('a batch that the provider does not know %s', (_what, missing_since, kind) => {
    const decision = decideAfterPoll({ ...row, missing_since }, null, at(1000), policy);
    expect(decision.kind).toBe(kind);
    if (decision.kind === 'wait')
      expect(decision).toEqual({ kind, delay_ms: policy.poll_interval_ms, missing: true });
  });

  test('a batch sent within the grace by the provider’s clock is not given up, whatever the database’s says', () => {
    const missed = { ...row, missing_since: at(-72 * 60 * MINUTE) };
    const decide = (sent_ms_ago: number | null) =>
      decideAfterPoll({ ...missed, sent_ms_ago }, null, at(0), policy).kind;
    expect(decide(policy.missing_grace_ms - 1)).toBe('wait');
    expect(decide(policy.missing_grace_ms)).toBe('lost');
    expect(decide(null)).toBe('lost');
  });

  test('a batch that is known again is no longer missing', () => {
    const missed = { ...row, missing_since: at(-72 * 60 * MINUTE) };
    expect(decideAfterPoll(missed, remote('in_progress'), at(0), policy)).toMatchObject({ missing: false });
  });
});

test('account trouble in a result is told apart from every other reason for a rest', () => {
  expect(Object.values(PAUSE_REASONS).filter((reason) => reason.startsWith(ACCOUNT_TROUBLE))).toEqual([]);
});

describe('after the provider refused a create', () => {
  const policy = REFUSAL_POLICY_DEFAULT;
  const decide = (cause: RefusalCause, requests = 100, failures = 0, retryAfterMs: number | null = null) =>
    decideAfterRefusal(cause, requests, failures, retryAfterMs, policy);

  test.each(['bad_request', 'too_large'] as const)(
    '%s: halved until the culprit is alone, which ends its run',
    (cause) => {
      expect(decide(cause, 100)).toEqual({ kind: 'split', at: 50 });
      expect(decide(cause, 3)).toEqual({ kind: 'split', at: 2 });
      expect(decide(cause, 2)).toEqual({ kind: 'split', at: 1 });
      expect(decide(cause, 1)).toEqual({ kind: 'fail_step' });
    },
  );

  test('both halves of a split are smaller and neither is empty', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 100_000 }), (requests) => {
        const decision = decide('bad_request', requests);
        const place = decision.kind === 'split' ? decision.at : NaN;
        expect(place).toBeGreaterThan(0);
        expect(place).toBeLessThan(requests);
      }),
    );
  });

  test('bad_request, after too many in a row: no run ends any more; halved at rest, and alone it waits', () => {
    const pause_reason = 'the provider refuses every request as bad';
    const rest = { delay_ms: policy.pause_ms, pause_reason, needs_operator: true };
    const decideAt = (refusedInRow: number, requests: number) =>
      decideAfterRefusal('bad_request', requests, 0, null, policy, refusedInRow);
    expect(decideAt(policy.refusals_max - 1, 1)).toEqual({ kind: 'fail_step' });
    expect(decideAt(policy.refusals_max, 1)).toEqual({ kind: 'wait', ...rest });
    expect(decideAt(policy.refusals_max, 3)).toEqual({ kind: 'split', at: 2, rest });
  });

  test.each([
    ['unauthorized', 'the provider refuses the key'],
    ['not_found', 'the provider refuses the key'],
    ['spend_limit', 'the spend limit at the provider is reached'],
  ] as const)(
    '%s: the credential rests for the pause, whatever its size or the failures so far, and a person has to mend it',
    (cause, pause_reason) => {
      const wait = { kind: 'wait', delay_ms: policy.pause_ms, pause_reason, needs_operator: true };
      expect(decide(cause, 1)).toEqual(wait);
      expect(decide(cause, 100, 9, 5)).toEqual(wait);
    },
  );

  test.each([
    [0, 5_000],
    [1, 10_000],
    [5, 160_000],
    [6, 300_000],
    [1_000_000, 300_000],
  ])('a limit hit for the %i-th time in a row without a time named: rest %i ms', (failures, delay_ms) => {
    expect(decide('rate_limited', 100, failures)).toEqual({
      kind: 'wait',
      delay_ms,
      pause_reason: 'the provider limits the rate',
      needs_operator: false,
    });
    expect(decide('overloaded', 100, failures)).toEqual({
      kind: 'wait',
      delay_ms,
      pause_reason: 'the provider is overloaded',
      needs_operator: false,
    });
  });

  test.each([
    ['is kept', 42_000, 42_000],
    ['longer than an hour is an hour', 7_200_000, 3_600_000],
    ['of nothing does not make a hot loop', 0, policy.backoff_ms],
    ['in the past does not either', -1_000, policy.backoff_ms],
  ])('a time named by the provider %s', (_what, retryAfterMs, delay_ms) => {
    for (const cause of ['rate_limited', 'overloaded'] as const) {
      expect(decide(cause, 100, 9, retryAfterMs)).toMatchObject({ kind: 'wait', delay_ms });
    }
  });
});

describe('the rest of a credential whose creates get no response', () => {
  test.each([
    [0, 0],
    [1, 0],
    [2, 0],
    [3, 5_000],
    [4, 10_000],
    [8, 160_000],
    [9, 300_000],
    [1_000_000, 300_000],
  ])('after %i in a row is %i ms', (failures, restMs) => {
    expect(breakerRestMs(failures, BREAKER_POLICY_DEFAULT)).toBe(restMs);
  });
});
