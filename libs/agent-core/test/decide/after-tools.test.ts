import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { isError } from '../../src/base/errors.ts';
import { decidePoisonedResults, decideResults } from '../../src/decide/after-tools.ts';
import type { SettledCall } from '../../src/decide/step-calls.ts';
import { NO_TOOL_POLICY } from '../../src/decide/tool-policy.ts';
import { nextToolChoice } from '../../src/decide/next-tool-choice.ts';
import { afterCallsOf, NO_TRAIL, ruleTrailOf, type Trail } from '../../src/decide/trail.ts';
import { canTake } from '../../src/machine/machine.ts';
import { RUN_STATES, runMachine } from '../../src/machine/run.ts';
import type { BlockChange } from '../../src/model/block-change.ts';
import type { StepMemory } from '../../src/model/tool-call.ts';
import { RESULT_TAKEN } from '../../src/tools/finish.ts';
import { withText } from '../../src/tools/results.ts';
import { child, makeRules, required, terminal } from '../rules/rules.ts';
import { makeTool } from '../tools/tools.ts';
import { makeCall, makeRun } from './facts.ts';

const RESULTS = '[{"type":"tool_result","tool_use_id":"a","content":"42"}]';
const acting = (rest: Parameters<typeof makeRun>[0] = {}) =>
  makeRun({ state: 'acting', last_seq: 5, ...rest });
const settled = (tool_name: string, rest: Partial<SettledCall['outcome']> = {}): SettledCall => ({
  planned: makeCall({ tool_name }),
  outcome: { ok: true, result: '42', ...rest },
});
const looked = [settled('lookup')];

describe('results of a step', () => {
  test('go into one user message behind the answer, and reset the next step', () => {
    const run = acting({ step_number: 2, attempt: 3, failures: 2, token_boost: 1 });
    expect(decideResults(run, looked)).toEqual({
      run_id: run.id,
      step_number: 2,
      reason: 'results go back to the model',
      calls: [{ call_index: 0, state: 'succeeded', duration_ms: 0 }],
      changes: [],
      message: { seq: 6, role: 'user', content_json: RESULTS, shown: true },
      run: {
        state: 'ready',
        step_number: 3,
        attempt: 1,
        failures: 0,
        token_boost: 0,
        delay_ms: 0,
        trail: {
          ...NO_TRAIL,
          steps: { prints: [expect.any(String)], seen: [expect.any(String)], stalled: 0 },
        },
      },
    });
  });

  test.each([
    [9, 10, 'ready'],
    [10, 10, 'completed'],
    [11, 10, 'completed'],
    [1, 1, 'completed'],
  ])('of step %i of %i leave the run %s', (step_number, max_steps, state) => {
    const { run, message } = decideResults(acting({ step_number, max_steps }), looked);
    expect(run.state).toBe(state);
    expect(message).toEqual({ seq: 6, role: 'user', content_json: RESULTS, shown: true });
    if (state === 'completed') expect(run).toEqual({ state, stop_reason: 'max_steps', error: null });
  });

  test.each(['cancelling', 'cancelled'] as const)(
    'of a batch that is %s are kept and end the run',
    (batch_state) => {
      for (const step_number of [1, 10]) {
        const { run, message } = decideResults(acting({ batch_state, step_number }), looked);
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

  test('end the run by a tool rule, with or without steps left', () => {
    for (const step_number of [1, 10]) {
      const { run, message } = decideResults(
        acting({ step_number, max_steps: 10 }),
        [settled('lookup'), settled('done')],
        toolPolicy,
      );
      expect(run).toEqual({ state: 'completed', stop_reason: 'tool_rule', error: null });
      expect(message).toMatchObject({ shown: true, content_json: RESULTS });
    }
  });

  test('past the deadline are kept, and end the run', () => {
    const { run, message } = decideResults(acting({ is_overdue: true }), [settled('lookup')], toolPolicy);
    expect(run).toMatchObject({ state: 'failed', stop_reason: 'deadline' });
    expect(message.content_json).toBe(RESULTS);
    const done = [settled('lookup'), settled('done')];
    expect(decideResults(acting({ is_overdue: true }), done, toolPolicy).run).toMatchObject({
      stop_reason: 'tool_rule',
    });
  });

  test('of a call that the caller denied are ignored by rules', () => {
    const denied = { ...settled('done', { ok: false }), denied: true };
    const { run } = decideResults(acting(), [settled('lookup'), denied], toolPolicy);
    expect(run).toMatchObject({ state: 'ready', trail: { history: { calls: ['lookup'] } } });
  });

  test('of a forced call that the caller denied are not followed by another forced call', () => {
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
      const { run } = decideResults(acting({ trail }), calls, forcing);
      return run.state === 'ready' ? (run.trail ?? NO_TRAIL) : NO_TRAIL;
    };
    const before = { ...NO_TRAIL, history };
    expect(nextToolChoice(forcing, before)).toEqual({ type: 'tool', name: 'done' });
    const after = trailAfter(before, denied);
    expect([after.history, after.denied]).toEqual([history, true]);
    expect(nextToolChoice(forcing, after)).toBeNull();
    // Nor where the model meanwhile tries a forbidden call; a call carried out restores the rules.
    expect(nextToolChoice(forcing, trailAfter(after, rejected))).toBeNull();
    expect(nextToolChoice(forcing, trailAfter(before, rejected))).not.toBeNull();
    expect(nextToolChoice(forcing, trailAfter(after, settled('lookup')))).not.toBeNull();
    // A call carried out beside the denied call restores no rule.
    for (const trail of [before, after]) {
      expect(nextToolChoice(forcing, trailAfter(trail, settled('lookup'), denied))).toBeNull();
      expect(nextToolChoice(forcing, trailAfter(trail, denied, settled('lookup')))).toBeNull();
    }
    expect(trailAfter(after, settled('done')).denied).toBeUndefined();
  });

  test('leave a trail that tool rules read as they read the calls of all steps', () => {
    const rules = makeRules(child('lookup', 'done'));
    const call = fc.record({
      tool_name: fc.constantFrom('lookup', 'done'),
      result: fc.constantFrom('good', 'bad'),
      carried_out: fc.boolean(),
      denied: fc.boolean(),
      input: fc.constant({}),
      is_error: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(fc.array(call, { minLength: 1, maxLength: 3 }), { maxLength: 6 }), (steps) => {
        const kept = steps.reduce((trail: Trail, calls) => afterCallsOf(trail, rules, calls), NO_TRAIL);
        const { history, denied } = ruleTrailOf(rules, steps);
        expect({ history, denied }).toEqual({ history: kept.history, denied: kept.denied });
      }),
    );
  });

  test('of a terminal tool that came too early go on, with the missing tools behind the results', () => {
    const { run, message } = decideResults(acting(), [settled('done')], toolPolicy);
    expect(run).toMatchObject({ state: 'ready', trail: { history: { calls: ['done'], last_result: null } } });
    expect(JSON.parse(message.content_json)).toEqual([
      { type: 'tool_result', tool_use_id: 'a', content: '42' },
      { type: 'text', text: expect.stringContaining('You must call lookup at least once') as string },
    ]);
    expect(withText('[]', 'more')).toBe('[{"type":"text","text":"more"}]');
  });

  test('of a batch that is being cancelled end the run as cancelled, whatever the rules', () => {
    const run = acting({ batch_state: 'cancelling' });
    expect(decideResults(run, [settled('done')], toolPolicy).run.state).toBe('cancelled');
  });

  test('that repeat end the run as loop_detected, with the results stored', () => {
    let run = acting({ max_steps: 100 });
    for (let step = 1; step < 5; step++) {
      const { run: move } = decideResults(run, [settled('lookup')]);
      if (move.state !== 'ready') throw new Error(`ended at step ${step}`);
      run = { ...run, step_number: move.step_number, trail: move.trail ?? null };
    }
    const { run: end, message } = decideResults(run, [settled('lookup')]);
    expect(end).toEqual({
      state: 'failed',
      stop_reason: 'loop_detected',
      error: {
        message: 'The same step came 5 times in a row, with the same calls, arguments and results.',
      },
    });
    expect(message.content_json).toBe(RESULTS);
  });

  test('of two alternating steps are a loop too, and calls that only fail a stall', () => {
    const ends = (callOf: (step: number) => SettledCall) => {
      let run = acting({ max_steps: 100 });
      for (let step = 1; step < 30; step++) {
        const { run: move } = decideResults(run, [callOf(step)]);
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

  test('after which no tool may be called although a call is due end the run as no_valid_tools', () => {
    const rules = makeRules(child('lookup', 'zzz'));
    expect(decideResults(acting(), [settled('lookup')], { ...toolPolicy, rules }).run).toMatchObject({
      state: 'failed',
      stop_reason: 'no_valid_tools',
    });
  });

  test('may settle in the commit of the answer itself, while the run still counts as in flight', () => {
    expect(decideResults(makeRun(), looked).run.state).toBe('ready');
  });

  test.each(RUN_STATES)('a run that is %s accepts them only where its machine allows', (state) => {
    const decide = () => decideResults(makeRun({ state }), looked);
    if (canTake(runMachine, state, 'continue')) expect(decide().run.state).toBe('ready');
    else expect(decide).toThrow(expect.toSatisfy((error) => isError(error, 'illegal_transition')));
  });
});

describe('results that cannot be stored', () => {
  const uses = [
    { type: 'tool_use', id: 'a', name: 'lookup', input: {} },
    { type: 'tool_use', id: 'b', name: 'lookup', input: {} },
  ] as const;

  test('end the run, with its calls answered so that its conversation stays usable', () => {
    const rows = (['pending', 'running', 'succeeded'] as const).map((state, call_index) => ({
      call_index,
      state,
    }));
    const decision = decidePoisonedResults(acting({ step_number: 2 }), uses, rows);
    expect(decision.message).toMatchObject({ seq: 6, role: 'user', shown: true });
    expect(JSON.parse(decision.message.content_json)).toEqual(
      uses.map(({ id }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: 'The call could not be processed.',
        is_error: true,
      })),
    );
    expect(decision).toMatchObject({ step_number: 2, changes: [] });
    expect(decision.calls.map(({ state }) => state)).toEqual(['failed', 'unknown', 'succeeded']);
    expect(decision.run).toMatchObject({ state: 'failed', stop_reason: 'poison' });
  });

  test('are ignored for a run that has ended', () => {
    expect(() => decidePoisonedResults(makeRun({ state: 'completed' }), uses, [])).toThrow(
      expect.toSatisfy((error) => isError(error, 'illegal_transition')),
    );
  });
});

describe('calls of built-in tools that the caller has approved', () => {
  const look = makeTool('memory_insert', {}, { kind: 'memory', return_char_limit: 3 });
  const insert = makeCall({ tool_name: look.name, kind: 'memory', awaits: 'approval', tool: look });
  const change = { kind: 'detached' } as unknown as BlockChange;

  test('are carried out with the decision, in call order, and their results cut to the limit of their tool', () => {
    const made: string[] = [];
    const memory: StepMemory = {
      carryOut: ({ tool_use_id }) => {
        made.push(tool_use_id);
        return { outcome: { ok: true, result: 'abcdef' }, changes: [change] };
      },
    };
    const calls = [
      {
        planned: makeCall({ tool_use_id: 'u' }),
        outcome: { ok: false, result: 'who knows' },
        state: 'unknown' as const,
      },
      { planned: { ...insert, index: 1, tool_use_id: 'b' }, outcome: null },
      { planned: { ...insert, index: 2, tool_use_id: 'c' }, outcome: null },
      { planned: makeCall({ index: 3, tool_use_id: 'd', kind: 'finish' }), outcome: null },
    ];
    const decision = decideResults(acting(), calls, NO_TOOL_POLICY, memory);
    expect(made).toEqual(['b', 'c']);
    expect(decision.changes).toEqual([change, change]);
    expect(decision.calls).toEqual([
      { call_index: 0, state: 'unknown', duration_ms: 0 },
      { call_index: 1, state: 'succeeded', duration_ms: 0 },
      { call_index: 2, state: 'succeeded', duration_ms: 0 },
      { call_index: 3, state: 'succeeded', duration_ms: 0 },
    ]);
    expect(decision.message.content_json).toContain('abc... [NOTE: function output was truncated');
    expect(decision.message.content_json).toContain(RESULT_TAKEN);
  });

  test('are an error where no block was locked, and so is a call that was never made', () => {
    expect(() => decideResults(acting(), [{ planned: insert, outcome: null }])).toThrow('were not locked');
    expect(() => decideResults(acting(), [{ planned: makeCall(), outcome: null }])).toThrow('was not made');
  });
});
