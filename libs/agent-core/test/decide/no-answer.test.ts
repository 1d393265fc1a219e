import { describe, expect, test } from 'vitest';
import { NO_TOOL_POLICY } from '../../src/decide/tool-policy.ts';
import {
  RETRY_POLICY_DEFAULT,
  retryDelayMs,
  type RetryPolicy,
  type RunFacts,
  type RunMove,
  type StepDecision,
} from '../../src/decide/decision.ts';
import { NO_TRAIL } from '../../src/decide/trail.ts';
import type { LastError } from '../../src/decide/last-error.ts';
import type { ErrorClass, StepOutcome } from '../../src/decide/step-outcome.ts';
import { RUN_STATES, runMachine, type RunState, type StopReason } from '../../src/machine/run.ts';
import { terminalStates } from '../../src/machine/machine.ts';
import type { ContentBlock } from '../../src/model/content.ts';
import { NO_USAGE } from '../../src/model/usage.ts';
import { decideLine, keyOf, makeAnswer, makeRun, text } from './facts.ts';

const policy: RetryPolicy = {
  attempts_max: 3,
  retry_delay_ms: 1_000,
  retry_delay_ms_max: 3_000,
  outage_delay_ms: 9_000,
  outage_ms_max: 60_000,
};

const errored = (error_class: ErrorClass): StepOutcome => ({
  kind: 'errored',
  error_class,
  error_type: 'api_error',
  message: 'It broke.',
});

function decide(outcome: StepOutcome, rest: Partial<RunFacts> = {}): StepDecision {
  const run = makeRun(rest);
  const decision = decideLine(run, keyOf(run), outcome, policy);
  if (decision.kind === 'refuse') throw new Error(`refused as ${decision.reason}`);
  return decision;
}

interface Case {
  readonly what: string;
  readonly outcome: StepOutcome;
  readonly step: string;
  readonly gaveUp: readonly [RunState, StopReason];
  /** What the waiting run says. */
  readonly last_error?: LastError;
}

const RETRIED: readonly Case[] = [
  {
    what: 'expired at the provider',
    outcome: { kind: 'expired' },
    step: 'expired',
    gaveUp: ['expired', 'expired'],
    last_error: { type: 'expired', message: 'The provider did not get to the request in time.' },
  },
  {
    what: 'without a line',
    outcome: { kind: 'missing', bill: null },
    step: 'lost',
    gaveUp: ['failed', 'provider_error'],
    last_error: { type: 'missing', message: 'The provider returned no result for this step.' },
  },
  {
    what: 'with an unreadable line',
    outcome: { kind: 'unreadable', reason: 'not JSON', bill: null },
    step: 'errored',
    gaveUp: ['failed', 'provider_error'],
    last_error: { type: 'unreadable', message: 'not JSON' },
  },
  {
    what: 'with an error that may pass',
    outcome: errored('retryable'),
    step: 'errored',
    gaveUp: ['failed', 'provider_error'],
    last_error: { type: 'api_error', message: 'It broke.' },
  },
];

const FINAL: readonly Case[] = [
  {
    what: 'that the provider refuses',
    outcome: errored('permanent'),
    step: 'errored',
    gaveUp: ['failed', 'invalid_request'],
  },
  {
    what: 'that is too long',
    outcome: errored('too_long'),
    step: 'errored',
    gaveUp: ['failed', 'context_overflow'],
  },
];

describe.each(RETRIED)('a step $what', ({ outcome, step, gaveUp: [state, stop_reason], last_error }) => {
  test.each([
    [0, 1_000],
    [1, 2_000],
  ])('after %i failures is retried under a new attempt in %i ms', (failures, delay_ms) => {
    const decision = decide(outcome, { failures, attempt: 7, step_number: 2, token_boost: 1 });
    expect(decision.run).toEqual({
      state: 'ready',
      step_number: 2,
      attempt: 8,
      failures: failures + 1,
      token_boost: 1,
      delay_ms,
      last_error,
    });
    expect(decision.step.state).toBe(step);
  });

  test.each([2, 3, 200])('after %i failures ends its run', (failures) => {
    expect(decide(outcome, { failures }).run).toMatchObject({ state, stop_reason });
  });

  test('ends its run where no attempt number is left', () => {
    expect(decide(outcome, { attempt: 255 }).run).toMatchObject({ state, stop_reason });
    expect(decide(outcome, { attempt: 254 }).run).toMatchObject({ state: 'ready', attempt: 255 });
  });
});

describe.each(FINAL)('a step $what', ({ outcome, gaveUp: [state, stop_reason] }) => {
  test('ends its run at once, with the words of the provider', () => {
    const { run, step } = decide(outcome);
    expect(run).toEqual({ state, stop_reason, error: { message: 'It broke.', type: 'api_error' } });
    expect(step.error).toEqual({ type: 'api_error', message: 'It broke.' });
  });
});

describe('a prompt that is too long for the model, of an agent whose conversation may be summarised', () => {
  const tooLong = (rest: Partial<RunFacts> = {}): RunMove => {
    const run = makeRun(rest);
    const toolPolicy = { ...NO_TOOL_POLICY, compacts: true };
    const decision = decideLine(run, keyOf(run), errored('too_long'), policy, toolPolicy);
    if (decision.kind === 'refuse') throw new Error(`refused as ${decision.reason}`);
    return decision.run;
  };
  const overflow = { state: 'failed', stop_reason: 'context_overflow' };

  test('is retried at once, as no failure, to be summarised first', () => {
    expect(tooLong({ failures: 2, attempt: 3, step_number: 2, token_boost: 1 })).toEqual({
      state: 'ready',
      step_number: 2,
      attempt: 4,
      failures: 2,
      token_boost: 1,
      delay_ms: 0,
      trail: { ...NO_TRAIL, too_long: 'refused' },
    });
  });

  test('ends its run when the summary did not help, when it was itself a summary request, and at the last attempt', () => {
    for (const too_long of ['refused', 'summarised'] as const) {
      expect(tooLong({ trail: { ...NO_TRAIL, too_long } })).toMatchObject(overflow);
    }
    expect(tooLong({ summarises_to_seq: 3 })).toMatchObject(overflow);
    expect(tooLong({ attempt: 255 })).toMatchObject(overflow);
  });

  test('goes no further while its batch is being cancelled, or past its deadline', () => {
    expect(tooLong({ batch_state: 'cancelling' })).toMatchObject({ state: 'cancelled' });
    expect(tooLong({ is_overdue: true })).toMatchObject({ state: 'failed', stop_reason: 'deadline' });
  });

  test('may come after a summary made in time: another summary follows', () => {
    const outcome = { kind: 'answered', answer: makeAnswer('end_turn', [text('All was said.')]) } as const;
    const { run } = decide(outcome, { summarises_to_seq: 3 });
    expect(run).toMatchObject({ state: 'ready', trail: NO_TRAIL });
    expect(run).not.toHaveProperty('trail.too_long');
  });

  test('is forgotten with the next answer, and not with the summary', () => {
    const trail = { ...NO_TRAIL, too_long: 'refused' } as const;
    const after = (content: readonly ContentBlock[], rest: Partial<RunFacts>): RunMove => {
      const outcome = { kind: 'answered', answer: makeAnswer('end_turn', content) } as const;
      return decide(outcome, { trail, ...rest }).run;
    };
    expect(after([text('All was said.')], { summarises_to_seq: 3 })).toMatchObject({
      trail: { too_long: 'summarised' },
    });
    expect(after([text(' ')], {})).toMatchObject({ state: 'ready', trail: { ...NO_TRAIL, reasks: 1 } });
    expect(after([text(' ')], {})).not.toHaveProperty('trail.too_long');
  });
});

describe.each([...RETRIED, ...FINAL])('a step $what', ({ outcome, step }) => {
  test('costs nothing, appends nothing and applies nothing', () => {
    const decision = decide(outcome);
    expect(decision.messages).toEqual([]);
    expect(decision.step).toEqual({
      from: 'sealed',
      state: step,
      applies: false,
      stop_reason: null,
      error: step === 'errored' ? { type: expect.any(String), message: expect.any(String) } : null,
      usage: NO_USAGE,
      cost_nanousd: 0,
      message_id: null,
      model: null,
    });
  });

  test.each(['cancelling', 'cancelled'] as const)('of a batch that is %s is not retried', (batch_state) => {
    const decision = decide(outcome, { batch_state });
    expect(decision.run).toEqual({ state: 'cancelled', stop_reason: 'cancelled', error: null });
    expect(decision.step.state).toBe(step);
  });
});

describe('the reason why a step has no answer', () => {
  const unfit: StepOutcome = { kind: 'unfit', message: 'The prompt does not fit.' };
  const poison: StepOutcome = { kind: 'poison', bill: null };
  const outcomes = [
    ...[...RETRIED, ...FINAL].map(({ outcome }) => outcome),
    errored('outage'),
    errored('account'),
    unfit,
    poison,
  ];

  test('differs for each outcome', () => {
    const reasons = outcomes.map((outcome) => decide(outcome).reason);
    expect(new Set(reasons).size).toBe(outcomes.length);
    expect(reasons).not.toContain('');
  });

  test('is a sentence for the user of the failed run', () => {
    const moves = outcomes.map((outcome) => decide(outcome, { attempt: 255 }).run);
    const failures = moves.filter(({ state }) => state === 'failed');
    expect(failures).toHaveLength(outcomes.length - 1);
    for (const move of failures) {
      expect(move).toMatchObject({ error: { message: expect.stringMatching(/^[A-Z].+\.$/) as string } });
    }
  });

  test('is stored on the step unless its state says it all', () => {
    const errors = outcomes.map((outcome) => decide(outcome).step).filter(({ state }) => state === 'errored');
    expect(errors).toHaveLength(outcomes.length - 2);
    for (const { error } of errors) {
      expect(error).toMatchObject({
        type: expect.stringMatching(/./) as string,
        message: expect.stringMatching(/./) as string,
      });
    }
  });

  test('names the type that the provider gave, also when an outage has used up all attempts', () => {
    for (const error_class of ['retryable', 'outage', 'account'] as const) {
      expect(decide(errored(error_class), { attempt: 255 }).run).toMatchObject({
        error: { type: 'api_error' },
      });
    }
  });

  test('is the window of the model for a prompt that does not fit it, and ends the run at once', () => {
    const { run, step } = decide(unfit);
    const message = 'The prompt does not fit.';
    expect(step).toMatchObject({ state: 'errored', error: { type: 'context_overflow', message } });
    expect(run).toEqual({ state: 'failed', stop_reason: 'context_overflow', error: { message } });
    expect(decide(unfit, { batch_state: 'cancelling' }).run).toMatchObject({ state: 'cancelled' });
  });
});

test('a run that gives up on unreadable lines names the fault of the last line', () => {
  const { run } = decide({ kind: 'unreadable', reason: 'not JSON', bill: null }, { failures: 2 });
  expect(run).toMatchObject({ error: { last_error: { type: 'unreadable', message: 'not JSON' } } });
});

describe('a complete but useless answer', () => {
  const { content: _content, content_json: _text, ...bill } = makeAnswer('tool_use', []);
  const outcome: StepOutcome = { kind: 'unusable', reason: 'nested deeper than 128 levels', bill };

  test('ends the run at once with a reason of its own, and is booked', () => {
    expect(decide(outcome)).toMatchObject({
      step: {
        ...{ state: 'errored', applies: false, usage: bill.usage, cost_nanousd: 1234, model: bill.model },
        error: { type: 'unusable', message: 'nested deeper than 128 levels' },
      },
      messages: [],
      run: {
        ...{ state: 'failed', stop_reason: 'unusable_answer' },
        error: { message: expect.stringContaining('nested deeper than 128 levels') as unknown },
      },
    });
  });

  test('is booked also while its batch is being cancelled, and past the deadline', () => {
    expect(decide(outcome, { batch_state: 'cancelling' })).toMatchObject({
      step: { usage: bill.usage },
      run: { state: 'cancelled' },
    });
    expect(decide(outcome, { is_overdue: true }).run).toMatchObject({ stop_reason: 'unusable_answer' });
  });
});

test.each<[string, StepOutcome]>([
  ['cannot be read', { kind: 'unreadable', reason: 'not JSON', bill: makeAnswer('end_turn', []) }],
  ['never came again', { kind: 'missing', bill: makeAnswer('end_turn', []) }],
])('a line that %s may be asked for again, and its cost is booked', (_what, outcome) => {
  const { usage, cost_nanousd } = makeAnswer('end_turn', []);
  expect(decide(outcome)).toMatchObject({ step: { usage, cost_nanousd }, run: { state: 'ready' } });
});

describe('a step that was cancelled at the console of the provider', () => {
  const outcome: StepOutcome = { kind: 'canceled' };

  test('is ready again, without counting as a failure, however often it happens', () => {
    const decision = decide(outcome, { failures: 2, attempt: 7, step_number: 2, token_boost: 1 });
    expect(decision.step).toMatchObject({ state: 'canceled', cost_nanousd: 0 });
    expect(decision.run).toEqual({
      ...{ state: 'ready', step_number: 2, attempt: 8, failures: 2, token_boost: 1, delay_ms: 0 },
    });
  });

  test('ends its run where its batch is being cancelled, it is past its deadline, or no attempt number is left', () => {
    expect(decide(outcome, { batch_state: 'cancelling' }).run).toMatchObject({ state: 'cancelled' });
    expect(decide(outcome, { is_overdue: true }).run).toMatchObject({ stop_reason: 'deadline' });
    expect(decide(outcome, { attempt: 255 }).run).toMatchObject({ state: 'cancelled' });
  });
});

describe('a line for a run that has moved on', () => {
  const outcomes: readonly StepOutcome[] = [
    { kind: 'answered', answer: makeAnswer('end_turn', [text('late')]) },
    { kind: 'expired' },
    errored('permanent'),
  ];

  test.each(RUN_STATES.filter((state) => state !== 'in_flight'))(
    'is refused while the run is %s',
    (state) => {
      const reason = terminalStates(runMachine).includes(state) ? 'ended' : 'stale';
      for (const outcome of outcomes) {
        const run = makeRun({ state });
        expect(decideLine(run, keyOf(run), outcome, policy)).toEqual({
          kind: 'refuse',
          key: keyOf(run),
          reason,
        });
      }
    },
  );

  test.each([
    ['an earlier step', { number: 1, attempt: 5 }],
    ['a later step', { number: 3, attempt: 5 }],
    ['an earlier attempt', { number: 2, attempt: 4 }],
    ['a later attempt', { number: 2, attempt: 6 }],
  ])('is refused for %s', (_what, named) => {
    const run = makeRun({ step_number: 2, attempt: 5 });
    const key = { run_id: run.id, ...named };
    for (const outcome of outcomes) {
      expect(decideLine(run, key, outcome, policy)).toEqual({ kind: 'refuse', key, reason: 'stale' });
    }
  });
});

describe('a line that crashes its worker', () => {
  test('ends the run at once, and its cost is booked', () => {
    const run = makeRun({});
    const answer = makeAnswer('end_turn', [text('arsenic')]);
    const decision = decideLine(run, keyOf(run), { kind: 'poison', bill: answer }, policy);
    expect(decision).toMatchObject({
      step: { state: 'errored', applies: false, error: { type: 'poison' }, usage: answer.usage },
      messages: [],
      run: { state: 'failed', stop_reason: 'poison' },
    });
  });

  test('ends it as cancelled while its batch is being cancelled', () => {
    const run = makeRun({ batch_state: 'cancelling' });
    const decision = decideLine(run, keyOf(run), { kind: 'poison', bill: null }, policy);
    expect(decision).toMatchObject({ run: { state: 'cancelled' }, step: { cost_nanousd: 0 } });
  });
});

describe('the delay before an attempt', () => {
  test.each([
    [0, 5_000],
    [1, 5_000],
    [2, 10_000],
    [3, 20_000],
    [7, 320_000],
    [8, 600_000],
    [5_000, 600_000],
  ])('after %i failures is %i ms', (failures, delayMs) => {
    expect(retryDelayMs(RETRY_POLICY_DEFAULT, failures)).toBe(delayMs);
  });
});

describe('an outage', () => {
  test('uses no attempt: the step is sent again after the outage delay, its failures unchanged', () => {
    expect(decide(errored('outage'), { failures: 2, attempt: 40 })).toMatchObject({
      step: { state: 'errored' },
      run: { state: 'ready', attempt: 41, failures: 2, delay_ms: 9_000 },
    });
  });

  test('ends the run once attempt numbers are used up', () => {
    expect(decide(errored('outage'), { attempt: 255 }).run).toMatchObject({
      state: 'failed',
      stop_reason: 'provider_error',
    });
  });

  test('ends the run of a batch that is being cancelled', () => {
    expect(decide(errored('outage'), { batch_state: 'cancelling' }).run).toMatchObject({
      state: 'cancelled',
    });
  });

  test.each([
    [null, 0],
    [59_999, 0],
    [60_000, 1],
  ])('of a step that fails for %s ms counts its attempt as %i failures', (failing_for_ms, failures) => {
    expect(decide(errored('outage'), { failing_for_ms, attempt: 9 }).run).toMatchObject({
      state: 'ready',
      failures,
      delay_ms: 9_000,
      last_error: { type: 'api_error', message: 'It broke.' },
    });
  });

  test.each([
    ['the last attempt that counts', { failures: 2 }],
    ['the last attempt number', { attempt: 255 }],
  ])('past its bound ends the run at %s', (_, rest) => {
    expect(decide(errored('outage'), { failing_for_ms: 60_000, ...rest }).run).toMatchObject({
      state: 'failed',
      stop_reason: 'provider_error',
      error: { message: 'It broke.', type: 'api_error' },
    });
  });

  test('past its bound ends the run of a batch that is being cancelled as cancelled', () => {
    expect(
      decide(errored('outage'), { batch_state: 'cancelling', failing_for_ms: 60_000 }).run,
    ).toMatchObject({ state: 'cancelled' });
  });
});

describe('trouble with the account', () => {
  test('uses no attempt, however long it lasts', () => {
    expect(decide(errored('account'), { failures: 2, attempt: 40, failing_for_ms: 9e9 })).toMatchObject({
      step: { state: 'errored' },
      run: { state: 'ready', attempt: 41, failures: 2, delay_ms: 9_000 },
    });
  });
});
