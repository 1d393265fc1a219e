import { describe, expect, test } from 'vitest';
import { NO_TOOL_POLICY } from '../../src/decide/tool-policy.ts';
import {
  RETRY_POLICY_DEFAULT,
  type RunFacts,
  type RunMove,
  type StepDecision,
} from '../../src/decide/decision.ts';
import { NO_TRAIL, type Trail } from '../../src/decide/trail.ts';
import type { BatchState } from '../../src/machine/batch.ts';
import type { ContentBlock } from '../../src/model/content.ts';
import { makeRules, required } from '../rules/rules.ts';
import { call, decideLine, keyOf, makeAnswer, makeRun, text } from './facts.ts';

const policy = RETRY_POLICY_DEFAULT;

function decide(
  stopReason: string | null,
  content: readonly ContentBlock[],
  rest: Partial<RunFacts> = {},
): StepDecision {
  const run = makeRun(rest);
  const decision = decideLine(
    run,
    keyOf(run),
    { kind: 'answered', answer: makeAnswer(stopReason, content) },
    policy,
  );
  if (decision.kind === 'refuse') throw new Error(`refused as ${decision.reason}`);
  return decision;
}

/** Writes a decision on a line: step state, message, move and reason. */
function summary({ step, messages, run }: StepDecision): string {
  const message = messages.map(({ shown }) => (shown ? 'shown' : 'kept')).join() || 'none';
  return [step.state, message, run.state, ...whyOf(run)].join(' ');
}

function whyOf(move: RunMove): readonly (string | number)[] {
  if (move.state === 'acting' || move.state === 'requires_action') return [];
  if (move.state === 'ready') return [`${move.step_number}.${move.attempt}`];
  return [move.stop_reason];
}

const saying: readonly ContentBlock[] = [text('so')];
const calling: readonly ContentBlock[] = [text('so'), call('a'), call('b')];
const thinking: readonly ContentBlock[] = [{ type: 'thinking', thinking: '…' }];
const searching: readonly ContentBlock[] = [
  text('so'),
  { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
];
const nameless: readonly ContentBlock[] = [text('so'), call('a'), { type: 'tool_use', id: 'b', input: {} }];
const twice: readonly ContentBlock[] = [call('a'), call('a')];
const shapeless: readonly ContentBlock[] = [{ ...call('a'), input: '{"x":1}' }];
const blank: readonly ContentBlock[] = [text(''), text(' \n')];
const blankThought: readonly ContentBlock[] = [...thinking, text('')];
const nothing: readonly ContentBlock[] = [];

describe('an answer, while the batch runs', () => {
  test.each<[string | null, string, readonly ContentBlock[], string]>([
    ['end_turn', 'text', saying, 'done shown completed end_turn'],
    ['end_turn', 'nothing', nothing, 'done shown ready 2.1'],
    ['end_turn', 'calls', calling, 'answered shown acting'],
    ['end_turn', 'a call without a name', nameless, 'errored none failed unusable_answer'],
    ['stop_sequence', 'text', saying, 'done shown completed stop_sequence'],
    ['stop_sequence', 'nothing', nothing, 'done shown ready 2.1'],
    ['stop_sequence', 'calls', calling, 'answered shown acting'],
    ['tool_use', 'calls', calling, 'answered shown acting'],
    ['tool_use', 'text', saying, 'done kept failed provider_error'],
    ['tool_use', 'nothing', nothing, 'done none failed provider_error'],
    ['tool_use', 'a call without a name', nameless, 'errored none failed unusable_answer'],
    ['tool_use', 'two calls of one id', twice, 'errored none failed unusable_answer'],
    ['tool_use', 'a call whose input is text', shapeless, 'errored none failed unusable_answer'],
    ['pause_turn', 'text', saying, 'done shown ready 2.1'],
    ['pause_turn', 'an open server call', searching, 'done shown ready 2.1'],
    ['pause_turn', 'calls', calling, 'answered shown acting'],
    ['pause_turn', 'nothing', nothing, 'done shown ready 2.1'],
    ['pause_turn', 'blanks', blank, 'done kept,shown ready 2.1'],
    ['end_turn', 'text and blanks', [...saying, ...blank], 'done shown completed end_turn'],
    ['tool_use', 'blanks and calls', [...blank, ...calling], 'answered shown acting'],
    ['max_tokens', 'thought and blanks', blankThought, 'done kept failed max_tokens'],
    ['max_tokens', 'text and blanks', [...saying, ...blank], 'done shown failed max_tokens'],
    ['max_tokens', 'an open server call and blanks', [...searching, ...blank], 'done kept failed max_tokens'],
    ['max_tokens', 'text', saying, 'done shown failed max_tokens'],
    ['max_tokens', 'thought alone', thinking, 'done kept failed max_tokens'],
    ['max_tokens', 'an open server call', searching, 'done kept failed max_tokens'],
    ['max_tokens', 'nothing', nothing, 'done none failed max_tokens'],
    ['max_tokens', 'calls', calling, 'errored none ready 1.2'],
    ['max_tokens', 'a call without a name', nameless, 'errored none ready 1.2'],
    ['refusal', 'text', saying, 'done kept failed refusal'],
    ['refusal', 'calls', calling, 'done kept failed refusal'],
    ['refusal', 'nothing', nothing, 'done none failed refusal'],
    ['model_context_window_exceeded', 'text', saying, 'done shown failed context_overflow'],
    ['model_context_window_exceeded', 'calls', calling, 'done kept failed context_overflow'],
    ['compaction', 'text', saying, 'done kept failed provider_error'],
    ['compaction', 'calls', calling, 'done kept failed provider_error'],
    ['', 'text', saying, 'done kept failed provider_error'],
    [null, 'text', saying, 'errored none failed unusable_answer'],
    [null, 'calls', calling, 'errored none failed unusable_answer'],
  ])('that stops for %s with %s', (stopReason, _what, content, expected) => {
    expect(summary(decide(stopReason, content))).toBe(expected);
    expect(summary(decide(stopReason, content, { batch_state: 'paused' }))).toBe(expected);
  });
});

describe('an answer, while the batch is being cancelled', () => {
  test.each<[string | null, string, readonly ContentBlock[], string]>([
    ['end_turn', 'text', saying, 'done shown cancelled cancelled'],
    ['end_turn', 'calls', calling, 'done kept cancelled cancelled'],
    ['end_turn', 'a call without a name', nameless, 'done kept cancelled cancelled'],
    ['end_turn', 'nothing', nothing, 'done none cancelled cancelled'],
    ['end_turn', 'blanks', blank, 'done kept cancelled cancelled'],
    ['end_turn', 'thought alone', thinking, 'done kept cancelled cancelled'],
    ['end_turn', 'a search behind its words', searching, 'done shown cancelled cancelled'],
    ['stop_sequence', 'text', saying, 'done shown cancelled cancelled'],
    ['tool_use', 'calls', calling, 'done kept cancelled cancelled'],
    ['tool_use', 'text', saying, 'done kept cancelled cancelled'],
    ['pause_turn', 'an open server call', searching, 'done kept cancelled cancelled'],
    ['max_tokens', 'text', saying, 'done shown cancelled cancelled'],
    ['max_tokens', 'calls', calling, 'done kept cancelled cancelled'],
    ['model_context_window_exceeded', 'thought alone', thinking, 'done kept cancelled cancelled'],
    ['refusal', 'text', saying, 'done kept cancelled cancelled'],
    ['compaction', 'text', saying, 'done kept cancelled cancelled'],
    [null, 'text', saying, 'errored none cancelled cancelled'],
  ])('that stops for %s with %s', (stopReason, _what, content, expected) => {
    for (const batch_state of ['cancelling', 'cancelled'] satisfies BatchState[]) {
      expect(summary(decide(stopReason, content, { batch_state }))).toBe(expected);
    }
  });
});

describe('the step limit', () => {
  const last = { step_number: 3, max_steps: 3 };

  test.each<[string, readonly ContentBlock[], string]>([
    ['end_turn', saying, 'done shown completed end_turn'],
    ['tool_use', calling, 'answered shown acting'],
    ['pause_turn', searching, 'done kept completed max_steps'],
    ['max_tokens', calling, 'errored none ready 3.2'],
  ])(
    'an answer of the last step that stops for %s starts no further step, and ends for its own reason',
    (stopReason, content, expected) => {
      expect(summary(decide(stopReason, content, last))).toBe(expected);
    },
  );

  test('a pause of the step before goes on to the last step', () => {
    expect(summary(decide('pause_turn', searching, { step_number: 2, max_steps: 3 }))).toBe(
      'done shown ready 3.1',
    );
  });
});

describe('an answer that is cut off inside a call', () => {
  test('is sent again at once with doubled max_tokens, paid and not counted as a failure', () => {
    const decision = decide('max_tokens', calling, { failures: 2, attempt: 4 });
    expect(decision.run).toEqual({
      state: 'ready',
      step_number: 1,
      attempt: 5,
      failures: 2,
      token_boost: 1,
      delay_ms: 0,
    });
    expect(decision.step).toMatchObject({ state: 'errored', applies: false, cost_nanousd: 1234 });
    expect(decision.step.error).toMatchObject({ type: 'max_tokens' });
  });

  test('ends the run the second time, and its calls are never shown', () => {
    expect(summary(decide('max_tokens', calling, { token_boost: 1 }))).toBe('done kept failed max_tokens');
    expect(summary(decide('max_tokens', nameless, { token_boost: 1 }))).toBe('done kept failed max_tokens');
  });

  test('ends the run at once where more tokens are impossible', () => {
    const decision = decide('max_tokens', calling, { is_at_token_limit: true });
    expect(summary(decision)).toBe('done kept failed max_tokens');
    expect(decision.run).toMatchObject({
      error: { message: expect.stringContaining('can have no more tokens') as string },
    });
  });

  test('below the full limit is asked for again with the full limit, words and calls alike', () => {
    for (const content of [saying, calling, nothing]) {
      const decision = decide('max_tokens', content, { is_answer_limited: true });
      expect(summary(decision)).toBe('errored none ready 1.2');
      expect(decision.run).toMatchObject({ token_boost: 0, failures: 0, delay_ms: 0 });
      expect(decision.step).toMatchObject({ error: { type: 'max_tokens' }, cost_nanousd: 1234 });
    }
    const late = decide('max_tokens', saying, { is_answer_limited: true, is_overdue: true });
    expect(summary(late)).toBe('done shown failed max_tokens');
    const last = decide('max_tokens', saying, { is_answer_limited: true, attempt: 255 });
    expect(summary(last)).toBe('done shown failed max_tokens');
  });

  test('ends the run where no attempt number is left', () => {
    expect(summary(decide('max_tokens', calling, { attempt: 255 }))).toBe('done kept failed max_tokens');
  });
});

describe('an answer that fills the context window', () => {
  const exceed = (content: readonly ContentBlock[], compacts: boolean, rest: Partial<RunFacts> = {}) => {
    const run = makeRun({ attempt: 2, failures: 1, ...rest });
    const answer = makeAnswer('model_context_window_exceeded', content);
    const toolPolicy = { ...NO_TOOL_POLICY, compacts };
    return decideLine(run, keyOf(run), { kind: 'answered', answer }, policy, toolPolicy) as StepDecision;
  };

  test('is kept and hidden, and the step retried after a summary, without counting as a failure', () => {
    for (const content of [saying, calling, nothing]) {
      const decision = exceed(content, true);
      const message = content === nothing ? 'none' : 'kept';
      expect(summary(decision)).toBe(`errored ${message} ready 1.3`);
      expect(decision.step).toMatchObject({ applies: false, cost_nanousd: 1234 });
      expect(decision.run).toMatchObject({ failures: 1, delay_ms: 0, trail: { too_long: 'refused' } });
    }
  });

  test('ends the run where nothing may be summarised, or the summary did not help', () => {
    expect(summary(exceed(saying, false))).toBe('done shown failed context_overflow');
    const tried = { trail: { ...NO_TRAIL, too_long: 'summarised' as const } };
    expect(summary(exceed(saying, true, tried))).toBe('done shown failed context_overflow');
    expect(summary(exceed(calling, true, tried))).toBe('done kept failed context_overflow');
    expect(summary(exceed(saying, true, { is_overdue: true }))).toBe('done shown failed deadline');
  });
});

describe('whatever the answer', () => {
  const stopReasons = [
    ...[null, 'refusal', 'max_tokens', 'model_context_window_exceeded', 'pause_turn'],
    ...['tool_use', 'end_turn', 'stop_sequence', 'of_next_year'],
  ];
  const contents = [saying, calling, thinking, nameless, blank, nothing];
  const situations: readonly Partial<RunFacts>[] = [
    {},
    { batch_state: 'cancelling' },
    { is_overdue: true },
    { is_at_token_limit: true },
    { is_answer_limited: true },
    { token_boost: 1 },
    { attempt: 255 },
    { step_number: 10 },
    { trail: { ...NO_TRAIL, pauses: 10 } },
    { summarises_to_seq: 3 },
    { summarises_to_seq: 3, attempt: 255 },
  ];
  const decisions = [NO_TOOL_POLICY, { ...NO_TOOL_POLICY, compacts: true }].flatMap((toolPolicy) =>
    situations.flatMap((rest) =>
      stopReasons.flatMap((stopReason) =>
        contents.map((content) => {
          const run = makeRun(rest);
          const outcome = { kind: 'answered', answer: makeAnswer(stopReason, content) } as const;
          return decideLine(run, keyOf(run), outcome, policy, toolPolicy);
        }),
      ),
    ),
  );
  const applied = decisions.filter((decision) => decision.kind === 'apply');

  test('the log names a reason', () => {
    expect(applied).toHaveLength(decisions.length);
    expect(applied.filter(({ reason }) => reason === '')).toEqual([]);
  });

  test('its cost is booked', () => {
    const { usage, cost_nanousd, message_id, model } = makeAnswer(null, []);
    for (const { step } of applied) expect(step).toMatchObject({ usage, cost_nanousd, message_id, model });
  });

  test('each message is shown or hidden, and the model is asked again in words', () => {
    const messages = applied.flatMap((decision) => decision.messages);
    expect(messages.filter(({ shown }) => typeof shown !== 'boolean')).toEqual([]);
    const asked = messages.filter(({ role }) => role === 'user');
    expect(asked.length).toBeGreaterThan(0);
    for (const { content_json } of asked) {
      expect(JSON.parse(content_json)).toEqual([
        { type: 'text', text: expect.stringMatching(/./) as string },
      ]);
    }
  });

  test('a run that fails by it tells its user why, in a sentence', () => {
    const failures = applied.filter(({ run }) => run.state === 'failed');
    expect(failures.length).toBeGreaterThan(100);
    for (const { run } of failures) {
      expect(run).toMatchObject({ error: { message: expect.stringMatching(/^[A-Z].+\.$/) as string } });
    }
  });

  test('a step with a useless answer names its fault', () => {
    const useless = applied.filter(({ step }) => step.state === 'errored');
    expect(useless.length).toBeGreaterThan(100);
    for (const { step } of useless) {
      expect(step.error).toEqual({
        type: expect.stringMatching(/./) as string,
        message: expect.stringMatching(/./) as string,
      });
    }
  });
});

describe('an unusable answer', () => {
  test.each<[string, string | null, readonly ContentBlock[]]>([
    ['has no stop reason', null, saying],
    ['holds a call that cannot be answered', 'tool_use', nameless],
  ])('and %s ends its run at once, paid once', (_what, stopReason, content) => {
    const ended = decide(stopReason, content, { attempt: 3, failures: 1 });
    expect(summary(ended)).toBe('errored none failed unusable_answer');
    expect(ended.step).toMatchObject({ applies: false, cost_nanousd: 1234, usage: { output_tokens: 20 } });
    expect(ended.step.error).not.toBeNull();
  });
});

describe('the rows of an applied answer', () => {
  test('hold the message unchanged, at the next number, with the facts of the provider', () => {
    const decision = decide('end_turn', saying);
    expect(decision.messages).toEqual([
      { seq: 5, role: 'assistant', content_json: JSON.stringify(saying), shown: true },
    ]);
    expect(decision.step).toEqual({
      from: 'sealed',
      state: 'done',
      applies: true,
      stop_reason: 'end_turn',
      error: null,
      usage: makeAnswer('end_turn', saying).usage,
      cost_nanousd: 1234,
      message_id: 'msg_1',
      model: 'claude-sonnet-5-5',
    });
    expect(decision).toMatchObject({ kind: 'apply', key: keyOf(makeRun()), run: { error: null } });
    expect(decision.reason).toBe('answered in words');
  });

  test('tell the user why the run failed, without provider internals except an unknown stop reason', () => {
    expect(decide('refusal', saying).run).toMatchObject({
      error: { message: 'The model refused to answer.' },
    });
    expect(decide('compaction', saying).run).toMatchObject({
      error: { message: expect.stringContaining("'compaction'") },
    });
  });
});

describe('an empty answer', () => {
  const empties: readonly (readonly ContentBlock[])[] = [[], [text(' ')], thinking, [...thinking, text('')]];
  const trail = (rest: Partial<Trail>) => ({ trail: { ...NO_TRAIL, ...rest } });

  test('is hidden from later requests and asked for again, three times in a row, and then fails its run', () => {
    for (const content of empties) {
      const { messages, run } = decide('end_turn', content, trail({ reasks: 2 }));
      expect(messages.filter(({ role, shown }) => role === 'assistant' && shown)).toEqual([]);
      expect(messages.at(-1)).toMatchObject({
        seq: 4 + messages.length,
        role: 'user',
        content_json: expect.stringContaining('Your last response was empty') as string,
        shown: true,
      });
      expect(run).toMatchObject({ state: 'ready', step_number: 2, trail: { reasks: 3 } });
      expect(decide('end_turn', content, trail({ reasks: 3 })).run).toMatchObject({
        state: 'failed',
        stop_reason: 'loop_detected',
      });
    }
  });

  test('on the last step fails the run as max_steps', () => {
    expect(decide('end_turn', nothing, { step_number: 3, max_steps: 3 }).run).toMatchObject({
      state: 'failed',
      stop_reason: 'max_steps',
    });
  });

  test('that continues a pause adds nothing, and ends the run', () => {
    expect(decide('end_turn', nothing, trail({ pauses: 1 })).run).toMatchObject({ stop_reason: 'end_turn' });
  });

  test('of a run that has called tools ends it: its work is done', () => {
    const worked = trail({ steps: { prints: ['x'], seen: [], stalled: 0 } });
    expect(summary(decide('end_turn', nothing, worked))).toBe('done none completed end_turn');
    expect(summary(decide('end_turn', [text('')], worked))).toBe('done kept completed end_turn');
  });
});

describe('an answer in words', () => {
  const toolPolicy = { ...NO_TOOL_POLICY, available: ['a'], rules: makeRules(required('a')) };

  test('is asked for again where a rule demands a call, in a message of its own behind it', () => {
    const run = makeRun();
    const outcome = { kind: 'answered', answer: makeAnswer('stop_sequence', saying) } as const;
    const decision = decideLine(run, keyOf(run), outcome, policy, toolPolicy);
    expect(decision).toMatchObject({
      kind: 'apply',
      step: { state: 'done', applies: true },
      messages: [
        { seq: 5, role: 'assistant', shown: true },
        { seq: 6, role: 'user', content_json: expect.stringContaining('You must call a') as string },
      ],
      run: { state: 'ready', step_number: 2, trail: { reasks: 1, pauses: 0 } },
    });
    const given = { ...run, trail: { ...NO_TRAIL, reasks: 3 } };
    expect(decideLine(given, keyOf(given), outcome, policy, toolPolicy)).toMatchObject({
      run: { state: 'failed', stop_reason: 'loop_detected' },
    });
    const met = { ...run, trail: { ...NO_TRAIL, history: { calls: ['a'], last_result: null } } };
    expect(decideLine(met, keyOf(met), outcome, policy, toolPolicy)).toMatchObject({
      run: { state: 'completed', stop_reason: 'stop_sequence' },
    });
  });
});

describe('a pause of the provider', () => {
  test('is continued unchanged, ten times in a row, and then fails its run and stays hidden', () => {
    const paused = (pauses: number) => decide('pause_turn', searching, { trail: { ...NO_TRAIL, pauses } });
    expect(paused(9).run).toMatchObject({ state: 'ready', trail: { pauses: 10, reasks: 0 } });
    expect(summary(paused(10))).toBe('done kept failed loop_detected');
    expect(paused(10).run).toMatchObject({
      error: { message: expect.stringContaining(' 11 times') as string },
    });
  });

  test('forgets neither a denied call nor why a result was refused, and neither does asking again', () => {
    const trail = { ...NO_TRAIL, denied: true, refusal: 'It lacks a sum.' } as const;
    expect(decide('pause_turn', searching, { trail }).run).toMatchObject({ trail: { ...trail, pauses: 1 } });
    expect(decide('end_turn', blank, { trail }).run).toMatchObject({ trail: { ...trail, reasks: 1 } });
    const { run } = decide('pause_turn', searching);
    expect(run).not.toHaveProperty('trail.denied');
    expect(run).not.toHaveProperty('trail.refusal');
  });
});

describe('an answer past the deadline of its run', () => {
  const late = { is_overdue: true };

  test.each<[string, readonly ContentBlock[], string]>([
    ['end_turn', saying, 'done shown completed end_turn'],
    ['end_turn', nothing, 'done none failed deadline'],
    ['pause_turn', searching, 'done kept failed deadline'],
    ['max_tokens', calling, 'done kept failed deadline'],
    ['tool_use', calling, 'answered shown acting'],
    ['tool_use', nameless, 'errored none failed unusable_answer'],
  ])('that stops for %s takes no further step', (stopReason, content, expected) => {
    expect(summary(decide(stopReason, content, late))).toBe(expected);
  });
});
