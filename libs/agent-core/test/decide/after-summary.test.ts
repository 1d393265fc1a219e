import { describe, expect, test } from 'vitest';
import type { RetryPolicy, RunFacts, StepDecision } from '../../src/decide/decision.ts';
import type { StepOutcome } from '../../src/decide/step-outcome.ts';
import type { ContentBlock } from '../../src/model/content.ts';
import { call, decideLine, keyOf, makeAnswer, makeRun, text } from './facts.ts';

const policy: RetryPolicy = {
  attempts_max: 3,
  retry_delay_ms: 1_000,
  retry_delay_ms_max: 3_000,
  outage_delay_ms: 1_000,
  outage_ms_max: 60_000,
};

function decide(outcome: StepOutcome, rest: Partial<RunFacts> = {}): StepDecision {
  const run = makeRun({ summarises_to_seq: 3, step_number: 2, ...rest });
  const decision = decideLine(run, keyOf(run), outcome, policy);
  if (decision.kind === 'refuse') throw new Error(`refused as ${decision.reason}`);
  return decision;
}

const answered = (stop_reason: string | null, content: readonly ContentBlock[]): StepOutcome => ({
  kind: 'answered',
  answer: makeAnswer(stop_reason, content),
});

describe('the answer to a summary request', () => {
  test('becomes the summary, adds no message, is booked, and the run goes on', () => {
    const decision = decide(answered('end_turn', [text('  Ann wants a refund.\n'), text('Order 7.')]));
    expect(decision).toMatchObject({
      step: { from: 'sealed', state: 'done', applies: true, stop_reason: 'end_turn', cost_nanousd: 1234 },
      messages: [],
      summary: 'Ann wants a refund.\n\nOrder 7.',
      run: { state: 'ready', step_number: 3, attempt: 1, failures: 0, delay_ms: 0 },
    });
  });

  test('counts towards no limit: the last allowed step may be a summary', () => {
    const decision = decide(answered('end_turn', [text('All.')]), { step_number: 10, max_steps: 10 });
    expect(decision.run).toMatchObject({ state: 'ready', step_number: 11 });
  });

  test('is used whatever calls it makes, which are ignored', () => {
    expect(decide(answered('tool_use', [text('All.'), call('c1')]))).toMatchObject({
      summary: 'All.',
      messages: [],
      run: { state: 'ready' },
    });
  });

  test('is kept although its batch is being cancelled, because it was paid', () => {
    expect(decide(answered('end_turn', [text('All.')]), { batch_state: 'cancelling' })).toMatchObject({
      summary: 'All.',
      run: { state: 'cancelled' },
    });
  });

  test('is kept although the deadline of its run has passed, and the run ends', () => {
    expect(decide(answered('end_turn', [text('All.')]), { is_overdue: true })).toMatchObject({
      summary: 'All.',
      run: { state: 'failed', stop_reason: 'deadline' },
    });
  });

  test.each<[string, readonly ContentBlock[]]>([
    ['text', [text('Half of')]],
    ['thought', [{ type: 'thinking', thinking: '' }]],
    ['a call', [text('So'), call('c1')]],
  ])('that was cut off in %s is paid and asked for once more, with twice the tokens', (_what, content) => {
    const cut = answered('max_tokens', content);
    expect(decide(cut, { attempt: 2, failures: 1 })).toMatchObject({
      step: { state: 'errored', applies: false, cost_nanousd: 1234, error: { type: 'summary' } },
      messages: [],
      summary: null,
      run: { state: 'ready', step_number: 2, attempt: 3, failures: 1, token_boost: 1, delay_ms: 0 },
    });
    const gaveUp = { state: 'failed', stop_reason: 'context_overflow' };
    for (const last of [{ token_boost: 1, is_at_token_limit: true }, { attempt: 255 }])
      expect(decide(cut, last)).toMatchObject({ summary: null, run: gaveUp });
    expect(decide(cut, { is_overdue: true }).run).toMatchObject({ state: 'failed', stop_reason: 'deadline' });
    expect(decide(cut, { batch_state: 'cancelling' }).run).toMatchObject({ state: 'cancelled' });
  });

  test('that was cut off is repeated once, even if the step in its place was cut off too', () => {
    const cut = answered('max_tokens', [text('Half of')]);
    expect(decide(cut, { token_boost: 1 }).run).toMatchObject({ state: 'ready', token_boost: 2 });
  });

  test('for which the model had no room ends the run: twice the tokens would not help', () => {
    expect(decide(answered('model_context_window_exceeded', [text('Half of')]))).toMatchObject({
      step: { state: 'errored', cost_nanousd: 1234 },
      summary: null,
      run: { state: 'failed', stop_reason: 'context_overflow' },
    });
  });

  test.each([
    ['a refusal', 'refusal', [text('No.')]],
    ['without text', 'end_turn', []],
    ['of blanks', 'end_turn', [text(' \n')]],
    ['without a stop reason', null, [text('All.')]],
  ])(
    '%s: is booked, put aside and asked for again, and at last the run ends alone',
    (_what, reason, content) => {
      const outcome = answered(reason, content);
      expect(decide(outcome)).toMatchObject({
        step: { state: 'errored', applies: false, cost_nanousd: 1234, error: { type: 'summary' } },
        summary: null,
        run: { state: 'ready', step_number: 2, attempt: 2, failures: 1 },
      });
      expect(decide(outcome, { failures: 2, attempt: 3 }).run).toMatchObject({
        state: 'failed',
        stop_reason: 'context_overflow',
      });
      expect(decide(outcome, { batch_state: 'cancelling' }).run).toMatchObject({ state: 'cancelled' });
    },
  );

  test('none: the step is retried like any other', () => {
    expect(decide({ kind: 'expired' })).toMatchObject({
      step: { state: 'expired' },
      summary: null,
      run: { state: 'ready', step_number: 2, attempt: 2 },
    });
  });

  test('is refused once the run has moved on', () => {
    const run = makeRun({ summarises_to_seq: 3, step_number: 2 });
    const late = { ...keyOf(run), number: 1 };
    expect(decideLine(run, late, answered('end_turn', [text('All.')]), policy)).toMatchObject({
      kind: 'refuse',
      reason: 'stale',
    });
  });
});

test('a request that does not fit the window ends its run, unsent and unpaid', () => {
  const outcome: StepOutcome = { kind: 'unfit', message: 'The prompt is too long.' };
  for (const summarises_to_seq of [null, 3]) {
    expect(decide(outcome, { summarises_to_seq })).toMatchObject({
      step: { state: 'errored', applies: false, cost_nanousd: 0, error: { type: 'context_overflow' } },
      messages: [],
      run: {
        state: 'failed',
        stop_reason: 'context_overflow',
        error: { message: 'The prompt is too long.' },
      },
    });
  }
  expect(decide(outcome, { batch_state: 'cancelling' }).run.state).toBe('cancelled');
});
