import { describe, expect, test } from 'vitest';
import { isError } from '../../src/base/errors.ts';
import { decideAfterTools, decidePoisonedTools, type SettledCall } from '../../src/decide/after-tools.ts';
import { NO_TOOL_POLICY } from '../../src/decide/tool-policy.ts';
import { nextToolChoice } from '../../src/decide/next-tool-choice.ts';
import { NO_TRAIL, type Trail } from '../../src/decide/trail.ts';
import { canTake } from '../../src/machine/machine.ts';
import { RUN_STATES, runMachine } from '../../src/machine/run.ts';
import { child, makeRules, required, terminal } from '../rules/rules.ts';
import { makeRun } from './facts.ts';

const RESULTS = '[{"type":"tool_result","tool_use_id":"a","content":"42"}]';
const acting = (rest: Parameters<typeof makeRun>[0] = {}) => makeRun({ state: 'acting', ...rest });

describe('results of a step', () => {
  test('go into one user message behind the answer, and start the next step afresh', () => {
    const run = acting({ step_number: 2, attempt: 3, failures: 2, token_boost: 1 });
    expect(decideAfterTools(run, 5, RESULTS)).toEqual({
      run_id: run.id,
      step_number: 2,
      reason: 'results go back to the model',
      message: { seq: 6, role: 'user', content_json: RESULTS, shown: true },
      run: {
        state: 'ready',
        step_number: 3,
        attempt: 1,
        failures: 0,
        token_boost: 0,
        delay_ms: 0,
        trail: NO_TRAIL,
      },
    });
  });

  test.each([
    [9, 10, 'ready'],
    [10, 10, 'completed'],
    [11, 10, 'completed'],
    [1, 1, 'completed'],
  ])('of step %i of %i leave the run %s', (step_number, max_steps, state) => {
    const { run, message } = decideAfterTools(acting({ step_number, max_steps }), 5, RESULTS);
    expect(run.state).toBe(state);
    expect(message).toEqual({ seq: 6, role: 'user', content_json: RESULTS, shown: true });
    if (state === 'completed') expect(run).toEqual({ state, stop_reason: 'max_steps', error: null });
  });

  test.each(['cancelling', 'cancelled'] as const)(
    'of a batch that is %s are kept and end the run',
    (batch_state) => {
      for (const step_number of [1, 10]) {
        const { run, message } = decideAfterTools(acting({ batch_state, step_number }), 5, RESULTS);
        expect(run).toEqual({ state: 'cancelled', stop_reason: 'cancelled', error: null });
        expect(message.shown).toBe(true);
      }
    },
  );

  const toolPolicy = {
    ...NO_TOOL_POLICY,
    available: ['lookup', 'done'],
    rules: makeRules(terminal('done'), required('lookup')),
  };
  const settled = (tool_name: string, rest: Partial<SettledCall['outcome']> = {}): SettledCall => ({
    planned: {
      index: 0,
      tool_use_id: 'a',
      tool_name,
      kind: 'module',
      args: {},
      rejection: null,
      awaits: null,
      prefill_error: null,
      tool: null,
    },
    outcome: { ok: true, result: '42', ...rest },
  });

  test('end the run by a tool rule, also where steps are left or none is', () => {
    for (const step_number of [1, 10]) {
      const { run, message } = decideAfterTools(
        acting({ step_number, max_steps: 10 }),
        5,
        RESULTS,
        [settled('lookup'), settled('done')],
        toolPolicy,
      );
      expect(run).toEqual({ state: 'completed', stop_reason: 'tool_rule', error: null });
      expect(message).toMatchObject({ shown: true, content_json: RESULTS });
    }
  });

  test('past the deadline are kept, and end the run', () => {
    const { run, message } = decideAfterTools(
      acting({ is_overdue: true }),
      5,
      RESULTS,
      [settled('lookup')],
      toolPolicy,
    );
    expect(run).toMatchObject({ state: 'failed', stop_reason: 'deadline' });
    expect(message.content_json).toBe(RESULTS);
    const done = [settled('lookup'), settled('done')];
    expect(decideAfterTools(acting({ is_overdue: true }), 5, RESULTS, done, toolPolicy).run).toMatchObject({
      stop_reason: 'tool_rule',
    });
  });

  test('of a call that the caller denied count for no rule', () => {
    const denied = { ...settled('done', { ok: false }), denied: true };
    const { run } = decideAfterTools(acting(), 5, RESULTS, [settled('lookup'), denied], toolPolicy);
    expect(run).toMatchObject({ state: 'ready', trail: { history: { calls: ['lookup'] } } });
  });

  test('of a call that the rules force are not followed by another that is forced, once the caller has denied it', () => {
    const forcing = {
      ...toolPolicy,
      model_name: 'claude-haiku-4-5',
      rules: makeRules(child('lookup', 'done')),
    };
    const history = { calls: ['lookup'], last_result: null };
    const denied = { ...settled('done', { ok: false }), denied: true };
    const refused = settled('lookup', { ok: false });
    const rejected = { ...refused, planned: { ...refused.planned, kind: 'rejected' as const } };
    const trailAfter = (trail: Trail, ...calls: SettledCall[]): Trail => {
      const { run } = decideAfterTools(acting({ trail }), 5, RESULTS, calls, forcing);
      return run.state === 'ready' ? (run.trail ?? NO_TRAIL) : NO_TRAIL;
    };
    const before = { ...NO_TRAIL, history };
    expect(nextToolChoice(forcing, before)).toEqual({ type: 'tool', name: 'done' });
    const after = trailAfter(before, denied);
    expect([after.history, after.denied]).toEqual([history, true]);
    expect(nextToolChoice(forcing, after)).toBeNull();
    // Nor where the model tries what the rules forbid meanwhile; what is carried out puts them in force again.
    expect(nextToolChoice(forcing, trailAfter(after, rejected))).toBeNull();
    expect(nextToolChoice(forcing, trailAfter(before, rejected))).not.toBeNull();
    expect(nextToolChoice(forcing, trailAfter(after, settled('lookup')))).not.toBeNull();
    // What is carried out beside the denied call puts nothing in force.
    for (const trail of [before, after]) {
      expect(nextToolChoice(forcing, trailAfter(trail, settled('lookup'), denied))).toBeNull();
      expect(nextToolChoice(forcing, trailAfter(trail, denied, settled('lookup')))).toBeNull();
    }
    expect(trailAfter(after, settled('done')).denied).toBeUndefined();
  });

  test('of a terminal tool that came too early go on, with what is missing behind the results', () => {
    const { run, message } = decideAfterTools(acting(), 5, RESULTS, [settled('done')], toolPolicy);
    expect(run).toMatchObject({ state: 'ready', trail: { history: { calls: ['done'], last_result: null } } });
    expect(JSON.parse(message.content_json)).toEqual([
      { type: 'tool_result', tool_use_id: 'a', content: '42' },
      { type: 'text', text: expect.stringContaining('You must call lookup at least once') as string },
    ]);
    expect(decideAfterTools(acting(), 5, '[]', [settled('done')], toolPolicy).message.content_json).toMatch(
      /^\[\{"type":"text"/,
    );
  });

  test('of a batch that is being cancelled end the run as cancelled, whatever a rule says', () => {
    const run = acting({ batch_state: 'cancelling' });
    expect(decideAfterTools(run, 5, RESULTS, [settled('done')], toolPolicy).run.state).toBe('cancelled');
  });

  test('that come over and over end the run as loop_detected, with the results stored (B137)', () => {
    let run = acting({ max_steps: 100 });
    for (let step = 1; step < 5; step++) {
      const { run: move } = decideAfterTools(run, 5, RESULTS, [settled('lookup')]);
      if (move.state !== 'ready') throw new Error(`ended at step ${step}`);
      run = { ...run, step_number: move.step_number, trail: move.trail ?? null };
    }
    const { run: end, message } = decideAfterTools(run, 5, RESULTS, [settled('lookup')]);
    expect(end).toEqual({
      state: 'failed',
      stop_reason: 'loop_detected',
      error: {
        message: 'The same step came 5 times in a row, with the same calls, arguments and results.',
      },
    });
    expect(message.content_json).toBe(RESULTS);
  });

  test('of two steps in turn are a loop too, and calls that only fail a stall', () => {
    const ends = (callOf: (step: number) => SettledCall) => {
      let run = acting({ max_steps: 100 });
      for (let step = 1; step < 30; step++) {
        const { run: move } = decideAfterTools(run, 5, RESULTS, [callOf(step)]);
        if (move.state !== 'ready') return { step, move };
        run = { ...run, step_number: move.step_number, trail: move.trail ?? null };
      }
      return null;
    };
    expect(ends((step) => settled(step % 2 === 0 ? 'a' : 'b', { result: '' }))).toMatchObject({
      step: 10,
      move: {
        stop_reason: 'loop_detected',
        error: { message: expect.stringMatching(/^The same 2 steps came 5 times in a row/) as string },
      },
    });
    expect(ends((step) => settled('a', { ok: false, result: `error ${step}` }))).toMatchObject({
      step: 9,
      move: {
        stop_reason: 'loop_detected',
        error: { message: expect.stringMatching(/^The last 9 steps brought nothing new/) as string },
      },
    });
    expect(ends((step) => settled('a', { result: `new ${step}` }))).toBeNull();
    const writing = (step: number): SettledCall => {
      const { planned, outcome } = settled('memory_insert', { result: 'ok' });
      return { planned: { ...planned, kind: 'memory', args: { step } }, outcome };
    };
    expect(ends(writing)).toBeNull();
  });

  test('after which no tool may be called although one is due end the run as no_valid_tools (B79a)', () => {
    const rules = makeRules(child('lookup', 'zzz'));
    expect(
      decideAfterTools(acting(), 5, RESULTS, [settled('lookup')], { ...toolPolicy, rules }).run,
    ).toMatchObject({ state: 'failed', stop_reason: 'no_valid_tools' });
  });

  test('may settle in the commit of the answer itself, while the run still counts as in flight', () => {
    expect(decideAfterTools(makeRun(), 5, RESULTS).run.state).toBe('ready');
  });

  test.each(RUN_STATES)('a run that is %s takes them only where its machine says so', (state) => {
    const decide = () => decideAfterTools(makeRun({ state }), 5, RESULTS);
    if (canTake(runMachine, state, 'continue')) expect(decide().run.state).toBe('ready');
    else expect(decide).toThrow(expect.toSatisfy((error) => isError(error, 'illegal_transition')));
  });
});

describe('results that cannot be stored', () => {
  test('end the run, with its calls answered so that its conversation stays usable', () => {
    const run = acting({ step_number: 2 });
    const decision = decidePoisonedTools(run, 5, RESULTS);
    expect(decision.message).toEqual({ seq: 6, role: 'user', content_json: RESULTS, shown: true });
    expect(decision.run).toMatchObject({ state: 'failed', stop_reason: 'poison' });
  });

  test('are no matter for a run that has ended', () => {
    expect(() => decidePoisonedTools(makeRun({ state: 'completed' }), 5, RESULTS)).toThrow(
      expect.toSatisfy((error) => isError(error, 'illegal_transition')),
    );
  });
});
