import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { CLOCK_ALARM_MS, judgeClockOffset } from '../../src/decide/clock-offset.ts';
import { decideOrphans, type SettledDoubt } from '../../src/decide/after-hunt.ts';
import {
  areTwins,
  decideAfterSearch,
  RECONCILE_POLICY_DEFAULT,
  type Candidate,
  type OpenSubmission,
  type UnknownSubmission,
} from '../../src/decide/after-search.ts';

const policy = RECONCILE_POLICY_DEFAULT;
const at = (ms: number): Date => new Date(Date.parse('2026-11-20T12:00:00Z') + ms);

/** Sent at noon; its batch is searched from `from` to `to` milliseconds after. */
const submission: UnknownSubmission = { request_count: 3, sent_at: at(0), searches: 0 };
const from = -policy.clock_margin_ms;
const to = policy.quarantine_ms + policy.clock_margin_ms;
/** Distance within which a batch is left to another submission being sent. */
const near = policy.clock_skew_ms;
const whole = { complete: true, now: null };
const part = { complete: false, now: null };

const made = (provider_id: string, ms: number, request_count = 3): Candidate => ({
  provider_id,
  request_count,
  created_at: at(ms),
});
const doubt = (nonce: string, ms: number, request_count = 3): SettledDoubt => ({
  nonce,
  request_count,
  sent_at: at(ms),
});

describe('after a search for a create without a response', () => {
  test.each([
    ['at the send', [made('a', 0)], 'a'],
    ['at the first moment of the window', [made('a', from)], 'a'],
    ['at the last moment of the window', [made('a', to)], 'a'],
    ['first of several', [made('b', 2), made('a', 1), made('c', 3)], 'a'],
    ['nearest to the send', [made('b', -1), made('c', policy.quarantine_ms + 1), made('a', 9)], 'a'],
    ['nearest to the send, whatever the ids', [made('a', -1), made('b', 9)], 'b'],
    ['first of the equally near, whatever the ids', [made('a', 2), made('b', 1)], 'b'],
    ['at the same time as another, by id', [made('b', 1), made('a', 1), made('c', 1)], 'a'],
    ['of our size among others', [made('x', 0, 2), made('a', 9), made('y', 1, 4)], 'a'],
  ])('the batch that was made %s is adopted', (_what, batches, provider_id) => {
    const decision = decideAfterSearch(submission, batches, whole, policy);
    expect(decision).toEqual({
      kind: 'adopt',
      candidate: batches.find((batch) => batch.provider_id === provider_id),
    });
    // A match counts, however much of the list was unread.
    expect(decideAfterSearch(submission, batches, part, policy)).toEqual(decision);
  });

  test.each([
    ['none', []],
    ['one of another size', [made('a', 0, 2)]],
    ['a batch made before the window', [made('a', from - 1)]],
    ['a batch made after the window', [made('a', to + 1)]],
  ])('%s: searched again, then withdrawn; an incomplete list proves nothing', (_what, batches) => {
    const decide = (searches: number, complete: boolean) =>
      decideAfterSearch({ ...submission, searches }, batches, complete ? whole : part, policy);
    const again = { kind: 'search_again', delay_ms: policy.search_interval_ms };
    expect(decide(0, true)).toEqual({ ...again, counts: true });
    expect(decide(0, false)).toEqual({ ...again, counts: false });
    expect(decide(policy.searches_min - 1, false)).toEqual({ ...again, counts: false });
    expect(decide(policy.searches_min - 1, true)).toEqual({ kind: 'withdraw' });
    expect(decide(policy.searches_min + 5, true)).toEqual({ kind: 'withdraw' });
  });

  test('it is not withdrawn, nor a search counted, before the quarantine is over by the provider’s clock too', () => {
    const decide = (searches: number, ms: number) =>
      decideAfterSearch({ ...submission, searches }, [], { complete: true, now: at(ms) }, policy);
    const again = { kind: 'search_again', delay_ms: policy.search_interval_ms };
    for (const ms of [-from, policy.quarantine_ms - 2_000]) {
      expect(decide(0, ms)).toEqual({ ...again, counts: true });
      expect(decide(9, ms)).toEqual({ kind: 'withdraw' });
    }
    for (const ms of [from, 0, policy.quarantine_ms - 2_001]) {
      expect(decide(0, ms)).toEqual({ ...again, counts: false });
      expect(decide(9, ms)).toEqual({ ...again, counts: false });
    }
  });

  test('the order of the list changes nothing', () => {
    const candidate = fc.record({
      provider_id: fc.uuid(),
      request_count: fc.constantFrom(2, 3),
      created_at: fc.integer({ min: from - 2, max: to + 2 }).map(at),
    });
    fc.assert(
      fc.property(
        fc.uniqueArray(candidate, { selector: (batch) => batch.provider_id }),
        fc.boolean(),
        (batches, complete) => {
          const backwards = batches.toReversed();
          const list = complete ? whole : part;
          expect(decideAfterSearch(submission, backwards, list, policy)).toEqual(
            decideAfterSearch(submission, batches, list, policy),
          );
        },
      ),
    );
  });
});

test.each([
  ['at once', 0, 3, true],
  ['as far apart as one batch may be of both', to - from, 3, true],
  ['farther apart', to - from + 1, 3, false],
  ['at once, of another size', 0, 4, false],
])(
  'submissions made %s may take each other’s batch, or not, whichever is asked about',
  (_what, ms, request_count, expected) => {
    const other = doubt('other', ms, request_count);
    expect(areTwins(submission, other, policy)).toBe(expected);
    expect(areTwins(other, submission, policy)).toBe(expected);
  },
);

describe('unknown batches, after a doubt was settled', () => {
  const pairs = (doubts: readonly SettledDoubt[], batches: readonly Candidate[]): readonly string[] =>
    decideOrphans(doubts, batches, policy).map(
      ({ doubt: { nonce }, batch }) => `${batch.provider_id} of ${nonce}`,
    );

  test('are duplicates where they have the size of the submission and were not made before it, however late', () => {
    const days = 24 * 3_600_000;
    const batches = [
      made('early', from - 1),
      made('a', from),
      made('b', to),
      made('c', days),
      made('big', 0, 4),
    ];
    expect(pairs([doubt('one', 0)], batches)).toEqual(['a of one', 'b of one', 'c of one']);
  });

  test('have no owner without a doubt, and each belongs to at most one doubt', () => {
    expect(pairs([], [made('a', 0)])).toEqual([]);
    expect(pairs([doubt('one', 0), doubt('two', 1)], [made('a', 5)])).toEqual(['a of one']);
    expect(pairs([doubt('one', 0, 2), doubt('two', 1)], [made('a', 5)])).toEqual(['a of two']);
  });

  test('are found wherever a search would have adopted them', () => {
    const batch = fc.record({
      provider_id: fc.uuid(),
      request_count: fc.constantFrom(2, 3),
      created_at: fc
        .oneof(fc.integer({ min: from - 2, max: from + 2 }), fc.integer({ min: to - 2, max: to + 2 }))
        .map(at),
    });
    fc.assert(
      fc.property(batch, (candidate) => {
        const submission = { ...doubt('one', 0), searches: 0 };
        const isAdopted = decideAfterSearch(submission, [candidate], whole, policy).kind === 'adopt';
        const isLate = candidate.request_count === 3 && candidate.created_at > at(to);
        expect(decideOrphans([submission], [candidate], policy)).toHaveLength(isAdopted || isLate ? 1 : 0);
      }),
    );
  });
});

describe('while it is uncertain which batch another submission owns', () => {
  const other = (stage: OpenSubmission['stage'], ms: number, request_count = 3): OpenSubmission => ({
    request_count,
    sent_at: at(ms),
    stage,
  });
  const wait = { kind: 'search_again', delay_ms: policy.search_interval_ms, counts: false };

  test.each<[string, readonly OpenSubmission[]]>([
    ['is being sent', [other('sending', 0)]],
    ['is being sent among others', [other('adopted', 0), other('unknown', 0), other('sending', near)]],
  ])('a candidate is left to one of its size and time that %s', (_what, others) => {
    expect(decideAfterSearch(submission, [made('a', 0)], whole, policy, others)).toEqual(wait);
    expect(decideAfterSearch({ ...submission, searches: 9 }, [made('a', 0)], whole, policy, others)).toEqual(
      wait,
    );
  });

  test.each<[string, readonly OpenSubmission[]]>([
    ['no other submission is in doubt', []],
    ['the submission being sent is of another size', [other('sending', 0, 4)]],
    ['the submission being sent began too late', [other('sending', near + 1)]],
    ['the submission being sent began too early', [other('sending', -policy.quarantine_ms - near - 1)]],
    ['the other is in doubt itself', [other('unknown', 0)]],
    ['the other has adopted a batch', [other('adopted', 0)]],
  ])('a candidate is adopted where %s', (_what, others) => {
    expect(decideAfterSearch(submission, [made('a', 0)], whole, policy, others)).toMatchObject({
      kind: 'adopt',
    });
  });

  test('nothing is withdrawn while a submission of its size may have adopted its batch', () => {
    const last = { ...submission, searches: policy.searches_min - 1 };
    const decide = (others: readonly OpenSubmission[]) => decideAfterSearch(last, [], whole, policy, others);
    expect(decide([other('adopted', 0)])).toEqual(wait);
    expect(decide([other('adopted', 0, 4)])).toEqual({ kind: 'withdraw' });
    expect(decide([other('sending', 0), other('unknown', 0)])).toEqual({ kind: 'withdraw' });
    // A submission hours before or after cannot have: their windows do not meet.
    const hours = 6 * 3_600_000;
    expect(decide([other('adopted', -hours), other('adopted', hours)])).toEqual({ kind: 'withdraw' });
  });

  test.each(['sending', 'unknown', 'adopted'] as const)(
    'a batch of the size of a submission that is %s may be its first batch, whenever it was made',
    (stage) => {
      const suspected = (open: OpenSubmission) =>
        decideOrphans([doubt('one', 0)], [made('a', 0)], policy, [open]).map(
          ({ may_be_open }) => may_be_open,
        );
      expect(suspected(other(stage, 0))).toEqual([true]);
      expect(suspected(other(stage, -to - 1))).toEqual([true]);
      expect(suspected(other(stage, 0, 4))).toEqual([false]);
      const [suspect] = decideOrphans([doubt('one', 0)], [made('a', 0)], policy, [
        other(stage, 0, 4),
        other(stage, 0),
      ]);
      expect(suspect?.may_be_open).toBe(true);
    },
  );
});

test.each([
  [0, 0, 'fine'],
  [CLOCK_ALARM_MS - 1, 0, 'fine'],
  [CLOCK_ALARM_MS, 0, 'alarm'],
  [-CLOCK_ALARM_MS, 0, 'alarm'],
  [policy.clock_margin_ms, 0, 'alarm'],
  [policy.clock_margin_ms, 1, 'stop'],
  [-policy.clock_margin_ms, 1, 'stop'],
  [0, policy.clock_margin_ms + 1, 'stop'],
  [Number.NaN, 0, 'stop'],
] as const)(
  'clocks that are %d ms apart, give or take %d ms, are %s',
  (offset_ms, uncertainty_ms, verdict) => {
    expect(judgeClockOffset({ offset_ms, uncertainty_ms }, policy)).toBe(verdict);
  },
);
