import { describe, expect, test } from 'vitest';
import { decideCallerAnswer, type AwaitedCall, type CallerAnswer } from '../../src/decide/caller-answer.ts';
import type { RunState } from '../../src/machine/run.ts';

const decide = (
  answer: CallerAnswer,
  rest: Partial<AwaitedCall> = {},
  state: RunState = 'requires_action',
  is_overdue = false,
): ReturnType<typeof decideCallerAnswer> => {
  const call: AwaitedCall = {
    tool_name: 'pay',
    awaits: 'approval',
    answer_sha256: null,
    is_present: true,
    return_char_limit: 10,
    ...rest,
  };
  return decideCallerAnswer({ state, is_overdue }, call, answer, 'sha');
};
const result = (ok: boolean, text: string): CallerAnswer => ({
  kind: 'result',
  outcome: { ok, result: text },
});

describe('an answer of the caller', () => {
  test('lets a call be carried out', () => {
    expect(decide({ kind: 'approve' })).toEqual({
      kind: 'take',
      taken: { verdict: 'approved', state: 'pending', result: null },
    });
  });

  test.each([
    [null, 'The caller denied this call; it was not carried out.'],
    [' ', 'The caller denied this call; it was not carried out.'],
    ['Too dear.', 'The caller denied this call; it was not carried out. Reason: Too dear.'],
  ])('denies a call of either kind, with the reason %j', (reason, text) => {
    for (const awaits of ['approval', 'answer'] as const) {
      expect(decide({ kind: 'deny', reason }, { awaits })).toEqual({
        kind: 'take',
        taken: { verdict: 'denied', state: 'failed', result: text },
      });
    }
  });

  test.each([
    [true, 'ok', 'succeeded', 'ok'],
    [false, 'no', 'failed', 'no'],
    [true, 'x'.repeat(12), 'succeeded', /^x{10}\.\.\. \[NOTE: .*\(12 > 10\)\]$/],
  ])('brings the result of a client tool', (ok, text, state, kept) => {
    expect(decide(result(ok, text), { awaits: 'answer' })).toEqual({
      kind: 'take',
      taken: {
        verdict: 'answered',
        state,
        result: typeof kept === 'string' ? kept : (expect.stringMatching(kept) as string),
      },
    });
  });

  test('that does not fit the awaited input is refused as such', () => {
    expect(decide({ kind: 'approve' }, { awaits: 'answer' })).toMatchObject({ problem: 'misfit' });
    expect(decide(result(true, 'ok'))).toMatchObject({ problem: 'misfit' });
  });

  test('may be repeated, whatever the state of the run, and never changed', () => {
    for (const state of ['requires_action', 'ready', 'completed'] as const) {
      expect(decide({ kind: 'approve' }, { answer_sha256: 'sha' }, state)).toEqual({ kind: 'repeat' });
      expect(decide({ kind: 'approve' }, { answer_sha256: 'other' }, state)).toMatchObject({
        problem: 'conflict',
      });
    }
  });

  test('comes too late for a run that has ended or is being ended', () => {
    expect(decide({ kind: 'approve' }, {}, 'cancelled')).toMatchObject({
      problem: 'conflict',
      message: "The call of 'pay' awaits no answer any more: its run has ended.",
    });
    expect(decide({ kind: 'approve' }, {}, 'acting')).toMatchObject({ problem: 'conflict' });
    expect(decide({ kind: 'approve' }, { is_present: false })).toMatchObject({ problem: 'conflict' });
  });

  test('comes too late for a run past its deadline, unless it was accepted before', () => {
    expect(decide({ kind: 'approve' }, {}, 'requires_action', true)).toMatchObject({
      problem: 'conflict',
      message: "The call of 'pay' awaits no answer any more: its run has passed its deadline.",
    });
    expect(decide({ kind: 'approve' }, { answer_sha256: 'sha' }, 'requires_action', true)).toEqual({
      kind: 'repeat',
    });
  });
});
