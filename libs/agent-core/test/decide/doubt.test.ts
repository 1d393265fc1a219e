import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
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

/** Sent at noon; its batch was made from `from` to `to` milliseconds after. */
const submission: UnknownSubmission = { request_count: 3, submit_started_at: at(0), searches: 0 };
const from = -policy.clock_skew_ms;
const to = policy.quarantine_ms + policy.clock_skew_ms;

const made = (provider_id: string, ms: number, request_count = 3): Candidate => ({
  provider_id,
  request_count,
  created_at: at(ms),
});
const doubt = (nonce: string, ms: number, request_count = 3): SettledDoubt => ({
  nonce,
  request_count,
  submit_started_at: at(ms),
});

describe('after a search for a create that nobody answered for', () => {
  test.each([
    ['at the send', [made('a', 0)], 'a'],
    ['at the first moment of the window', [made('a', from)], 'a'],
    ['at the last moment of the window', [made('a', to)], 'a'],
    ['first of several', [made('b', 2), made('a', 1), made('c', 3)], 'a'],
    ['at the same time as another, by id', [made('b', 1), made('a', 1), made('c', 1)], 'a'],
    ['of our size among others', [made('x', 0, 2), made('a', 9), made('y', 1, 4)], 'a'],
  ])('the batch that was made %s is adopted', (_what, batches, provider_id) => {
    const decision = decideAfterSearch(submission, batches, true, policy);
    expect(decision).toEqual({
      kind: 'adopt',
      candidate: batches.find((batch) => batch.provider_id === provider_id),
    });
    // What is found counts, however much of the list was not seen.
    expect(decideAfterSearch(submission, batches, false, policy)).toEqual(decision);
  });

  test.each([
    ['none', []],
    ['one of another size', [made('a', 0, 2)]],
    ['one made before the window', [made('a', from - 1)]],
    ['one made after the window', [made('a', to + 1)]],
  ])('%s: searched again, then withdrawn; an incomplete list proves nothing', (_what, batches) => {
    const decide = (searches: number, complete: boolean) =>
      decideAfterSearch({ ...submission, searches }, batches, complete, policy);
    const again = { kind: 'search_again', delay_ms: policy.search_interval_ms };
    expect(decide(0, true)).toEqual({ ...again, counts: true });
    expect(decide(0, false)).toEqual({ ...again, counts: false });
    expect(decide(policy.searches_min - 1, false)).toEqual({ ...again, counts: false });
    expect(decide(policy.searches_min - 1, true)).toEqual({ kind: 'withdraw' });
    expect(decide(policy.searches_min + 5, true)).toEqual({ kind: 'withdraw' });
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
          expect(decideAfterSearch(submission, backwards, complete, policy)).toEqual(
            decideAfterSearch(submission, batches, complete, policy),
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

describe('batches that nobody knows, after a doubt was settled', () => {
  const pairs = (doubts: readonly SettledDoubt[], batches: readonly Candidate[]): readonly string[] =>
    decideOrphans(doubts, batches, policy).map(
      ({ doubt: { nonce }, batch }) => `${batch.provider_id} of ${nonce}`,
    );

  test('are second ones where size and time are those of the submission, bounds included', () => {
    const batches = [
      made('early', from - 1),
      made('a', from),
      made('b', to),
      made('late', to + 1),
      made('big', 0, 4),
    ];
    expect(pairs([doubt('one', 0)], batches)).toEqual(['a of one', 'b of one']);
  });

  test('are nobody’s without a doubt, and each belongs to one doubt at most', () => {
    expect(pairs([], [made('a', 0)])).toEqual([]);
    expect(pairs([doubt('one', 0), doubt('two', 1)], [made('a', 5)])).toEqual(['a of one']);
    expect(pairs([doubt('one', 0, 2), doubt('two', 1)], [made('a', 5)])).toEqual(['a of two']);
  });

  test('are found exactly where a search would have adopted them', () => {
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
        const adopted = decideAfterSearch(submission, [candidate], true, policy).kind === 'adopt';
        expect(decideOrphans([submission], [candidate], policy)).toHaveLength(adopted ? 1 : 0);
      }),
    );
  });
});

describe('while it is uncertain which batch another submission owns', () => {
  const other = (stage: OpenSubmission['stage'], ms: number, request_count = 3): OpenSubmission => ({
    request_count,
    submit_started_at: at(ms),
    stage,
  });
  const wait = { kind: 'search_again', delay_ms: policy.search_interval_ms, counts: false };

  test.each<[string, readonly OpenSubmission[]]>([
    ['is being sent', [other('sending', 0)]],
    ['is being sent among others', [other('adopted', 0), other('unknown', 0), other('sending', -to)]],
  ])('a candidate is left to one of its size and time that %s', (_what, others) => {
    expect(decideAfterSearch(submission, [made('a', 0)], true, policy, others)).toEqual(wait);
    expect(decideAfterSearch({ ...submission, searches: 9 }, [made('a', 0)], true, policy, others)).toEqual(
      wait,
    );
  });

  test.each<[string, readonly OpenSubmission[]]>([
    ['nobody else is in doubt', []],
    ['the one being sent is of another size', [other('sending', 0, 4)]],
    ['the one being sent began too late', [other('sending', policy.clock_skew_ms + 1)]],
    ['the one being sent began too early', [other('sending', -to - 1)]],
    ['the other is in doubt itself', [other('unknown', 0)]],
    ['the other has adopted a batch', [other('adopted', 0)]],
  ])('a candidate is adopted where %s', (_what, others) => {
    expect(decideAfterSearch(submission, [made('a', 0)], true, policy, others)).toMatchObject({
      kind: 'adopt',
    });
  });

  test('nothing is withdrawn while one of its size may have adopted its batch', () => {
    const last = { ...submission, searches: policy.searches_min - 1 };
    const decide = (others: readonly OpenSubmission[]) => decideAfterSearch(last, [], true, policy, others);
    expect(decide([other('adopted', 0)])).toEqual(wait);
    expect(decide([other('adopted', 0, 4)])).toEqual({ kind: 'withdraw' });
    expect(decide([other('sending', 0), other('unknown', 0)])).toEqual({ kind: 'withdraw' });
    // One that was sent hours before or after cannot have: their times do not meet.
    const hours = 6 * 3_600_000;
    expect(decide([other('adopted', -hours), other('adopted', hours)])).toEqual({ kind: 'withdraw' });
  });

  test.each(['sending', 'unknown', 'adopted'] as const)(
    'a batch that may be the first one of a submission that is %s is nobody’s second one',
    (stage) => {
      const doubts = [doubt('one', 0)];
      expect(decideOrphans(doubts, [made('a', 0)], policy, [other(stage, 0)])).toEqual([]);
      expect(decideOrphans(doubts, [made('a', 0)], policy, [other(stage, 0, 4)])).toHaveLength(1);
      expect(decideOrphans(doubts, [made('a', 0)], policy, [other(stage, -to - 1)])).toHaveLength(1);
    },
  );
});
