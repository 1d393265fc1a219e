import { describe, expect, test } from 'vitest';
import {
  countVerdicts,
  review,
  START,
  type Effect,
  type ReviewEvent,
  type ReviewState,
} from '../src/commands/memory/review-state.ts';

const key = (pressed: string): ReviewEvent => ({ kind: 'key', key: pressed });

/** Applies events, and returns the last step. */
function after(...events: readonly ReviewEvent[]): { readonly state: ReviewState; readonly effect: Effect } {
  let step: { readonly state: ReviewState; readonly effect: Effect } = { state: START, effect: 'show' };
  for (const event of events) step = review(step.state, event);
  return step;
}

const accepted: ReviewEvent = { kind: 'settled', verdict: 'accepted' };
const asked: ReviewEvent = {
  kind: 'asked',
  question: { kind: 'rest', verb: 'accept', count: 7, passages: 0 },
};

describe('keys of a review', () => {
  test.each([
    ['a', 'accept'],
    ['e', 'edit'],
    ['r', 'reject'],
    ['A', 'count-accept'],
    ['R', 'count-reject'],
    ['v', 'show-whole'],
    ['?', 'help'],
    ['q', 'quit'],
    ['\u0004', 'quit'],
    ['\u0003', 'interrupt'],
  ] as const)('%j means %s, and stays at the change', (pressed, effect) => {
    const step = after(key(pressed));
    expect(step.effect).toBe(effect);
    expect(step.state.at).toBe(0);
    expect(step.state.verdicts.size).toBe(0);
  });

  test('an unknown key changes nothing and says how to get help', () => {
    const { state, effect } = after(key('x'));
    expect(effect).toBe('none');
    expect(state).toEqual({ ...START, notice: expect.stringContaining('?') as string });
  });

  test('a skip leaves the change held and shows the next; back returns to it', () => {
    const skipped = after(key('s'));
    expect(skipped).toMatchObject({ effect: 'show', state: { at: 1 } });
    expect(skipped.state.verdicts.get(0)).toBe('skipped');
    expect(after(key('s'), key('b'))).toMatchObject({ effect: 'show', state: { at: 0 } });
    expect(after(key('s'), key('b'), key('a')).effect).toBe('accept');
  });

  test('there is nothing before the first change', () => {
    expect(after(key('b'))).toMatchObject({ effect: 'none', state: { at: 0 } });
  });
});

describe('decisions', () => {
  test('a settled change gives way to the next', () => {
    const { state, effect } = after(key('a'), accepted);
    expect({ at: state.at, effect }).toEqual({ at: 1, effect: 'show' });
    expect(countVerdicts(state)).toEqual({ accepted: 1, edited: 0, rejected: 0, skipped: 0, elsewhere: 0 });
  });

  test.each(['a', 'e', 'r'])('a settled change takes no second decision (%s)', (pressed) => {
    const { state, effect } = after(key('a'), accepted, key('b'), key(pressed));
    expect(effect).toBe('none');
    expect(state.notice).toContain('revert');
  });

  test('a skip over a settled change keeps its verdict', () => {
    const { state } = after(key('a'), accepted, key('b'), key('s'));
    expect(state.verdicts.get(0)).toBe('accepted');
    expect(state.at).toBe(1);
  });

  test('a change whose block was edited stays, and takes a merge or an overwrite', () => {
    const stale: ReviewEvent = { kind: 'stale', reason: 'edited' };
    expect(after(key('a'), stale)).toMatchObject({ effect: 'show', state: { at: 0 } });
    expect(after(key('a'), stale, key('m')).effect).toBe('merge');
    expect(after(key('a'), stale, key('o')).effect).toBe('overwrite');
    expect(after(key('m')).effect).toBe('none');
    expect(after(key('a'), { kind: 'stale', reason: 'deleted' }, key('o')).effect).toBe('none');
  });
});

describe('questions', () => {
  test('y settles the rest, any other key does not', () => {
    expect(after(key('A'), asked).effect).toBe('none');
    expect(after(key('A'), asked, key('y'))).toMatchObject({
      effect: 'settle-rest',
      state: { question: { kind: 'rest', verb: 'accept' } },
    });
    for (const other of ['n', '\r', 'a'])
      expect(after(key('A'), asked, key(other))).toMatchObject({
        effect: 'none',
        state: { question: null, notice: 'Nothing was changed.' },
      });
  });

  test('Ctrl-C answers no question: it interrupts', () => {
    expect(after(key('A'), asked, key('\u0003')).effect).toBe('interrupt');
  });

  test('an edited text is written after a yes only', () => {
    const edited: ReviewEvent = { kind: 'asked', question: { kind: 'edited', text: 'mine' } };
    expect(after(key('e'), edited, key('y'))).toMatchObject({
      effect: 'write-edited',
      state: { question: { text: 'mine' } },
    });
    expect(after(key('e'), edited, key('n'))).toMatchObject({
      effect: 'none',
      state: { at: 0, question: null },
    });
  });

  test('after the rest the review ends, or goes on at the first change that stays held', () => {
    const verdicts = new Map([[1, 'accepted' as const]]);
    const rest = { kind: 'rest', verdicts, end: 3 } as const;
    expect(after(asked, key('y'), { ...rest, stale: new Map() })).toMatchObject({
      effect: 'show',
      state: { at: 3, question: null },
    });
    const stale = new Map([[2, 'edited' as const]]);
    const step = after(asked, key('y'), { ...rest, stale });
    expect(step.state.at).toBe(2);
    expect(review(step.state, key('m')).effect).toBe('merge');
  });
});
