import { describe, expect, test } from 'vitest';
import { isError } from '../../src/base/errors.ts';
import { decideAfterTools, decidePoisonedTools } from '../../src/decide/after-tools.ts';
import { canTake } from '../../src/machine/machine.ts';
import { RUN_STATES, runMachine } from '../../src/machine/run.ts';
import { makeRun } from './facts.ts';

const RESULTS = '[{"type":"tool_result","tool_use_id":"a","content":"42"}]';
const acting = (rest: Parameters<typeof makeRun>[0] = {}) => makeRun({ state: 'acting', ...rest });

describe('results of a step', () => {
  test('go into one user message behind the answer, and start the next step afresh', () => {
    const run = acting({ step_number: 2, attempt: 3, failures: 2, token_boost: 1 });
    expect(decideAfterTools(run, 5, RESULTS)).toEqual({
      kind: 'settle',
      run_id: run.id,
      step_number: 2,
      reason: 'results go back to the model',
      message: { seq: 6, role: 'user', content_json: RESULTS, shown: true },
      run: { state: 'ready', step_number: 3, attempt: 1, failures: 0, token_boost: 0, delay_ms: 0 },
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

  test('end the run by a tool rule, also where steps are left or none is', () => {
    for (const step_number of [1, 10]) {
      const { run, message } = decideAfterTools(acting({ step_number, max_steps: 10 }), 5, RESULTS, true);
      expect(run).toEqual({ state: 'completed', stop_reason: 'tool_rule', error: null });
      expect(message.shown).toBe(true);
    }
  });

  test('of a batch that is being cancelled end the run as cancelled, whatever a rule says', () => {
    expect(decideAfterTools(acting({ batch_state: 'cancelling' }), 5, RESULTS, true).run.state).toBe(
      'cancelled',
    );
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
