import { describe, expect, test } from 'vitest';
import { addEvidence, evidenceOfLine, judgeOutage, NO_EVIDENCE } from '../../src/decide/outage.ts';
import type { ErrorClass, StepOutcome } from '../../src/decide/step-outcome.ts';
import { makeAnswer, text } from './facts.ts';

const errored = (error_class: ErrorClass): StepOutcome => ({
  kind: 'errored',
  error_class,
  error_type: 'api_error',
  message: 'It broke.',
});
const ANSWERED: StepOutcome = { kind: 'answered', answer: makeAnswer('end_turn', [text('done')]) };

function judge(lines: readonly (readonly [count: number, outcome: StepOutcome, isFresh: boolean])[]) {
  return judgeOutage(
    lines
      .flatMap(([count, outcome, isFresh]) =>
        Array.from({ length: count }, () => evidenceOfLine(outcome, isFresh)),
      )
      .reduce(addEvidence, NO_EVIDENCE),
  );
}

describe('an outage', () => {
  test.each([
    [9, 0, null],
    [10, 0, 'outage'],
    [8, 2, 'outage'],
    [7, 3, 'over'],
    [0, 1, 'over'],
    [0, 0, null],
  ])('is what %i failed and %i answered fresh lines say: %s', (failed, answered, expected) => {
    expect(
      judge([
        [failed, errored('retryable'), true],
        [answered, ANSWERED, true],
      ]),
    ).toBe(expected);
  });

  test('is never proven by retries, however many fail', () => {
    expect(judge([[1_000, errored('retryable'), false]])).toBeNull();
    expect(
      judge([
        [1_000, errored('outage'), false],
        [9, errored('retryable'), true],
      ]),
    ).toBeNull();
  });

  test('is proven by fresh lines among retries', () => {
    expect(
      judge([
        [1_000, errored('retryable'), false],
        [10, errored('outage'), true],
      ]),
    ).toBe('outage');
  });

  test.each([
    [1, 0, 'outage'],
    [4, 1, 'outage'],
    [3, 1, 'over'],
  ])('is proven by %i fresh overloads with %i answers, however few: %s', (overloads, answered, expected) => {
    expect(
      judge([
        [overloads, errored('overloaded'), true],
        [answered, ANSWERED, true],
      ]),
    ).toBe(expected);
  });

  test.each(['overloaded', 'retryable'] as const)(
    'is over where answers to retries outvote fresh %s lines',
    (kind) => {
      expect(
        judge([
          [12, errored(kind), true],
          [988, ANSWERED, false],
        ]),
      ).toBe('over');
    },
  );

  test('is not proven by overloads of retries, or by few among other errors', () => {
    expect(judge([[50, errored('overloaded'), false]])).toBeNull();
    expect(
      judge([
        [7, errored('overloaded'), true],
        [2, errored('retryable'), true],
      ]),
    ).toBeNull();
    expect(
      judge([
        [7, errored('overloaded'), true],
        [3, errored('retryable'), true],
      ]),
    ).toBe('outage');
  });

  test.each(['permanent', 'too_long', 'account'] as const)('is not proven by errors that are %s', (kind) => {
    expect(judge([[20, errored(kind), true]])).toBeNull();
  });

  test('is over with answers, be they of retries, and not with a few', () => {
    expect(judge([[3, ANSWERED, false]])).toBe('over');
    expect(
      judge([
        [80, errored('retryable'), false],
        [20, ANSWERED, false],
      ]),
    ).toBeNull();
    expect(
      judge([
        [79, errored('retryable'), false],
        [21, ANSWERED, false],
      ]),
    ).toBe('over');
  });
});
