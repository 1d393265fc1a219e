import { describe, expect, test } from 'vitest';
import { decidePoisonedResults, decideResults } from '../../src/decide/after-tools.ts';
import type { SettledCall } from '../../src/decide/step-calls.ts';
import { NO_TOOL_POLICY } from '../../src/decide/tool-policy.ts';
import { NO_TRAIL } from '../../src/decide/trail.ts';
import type { Json } from '../../src/base/json.ts';
import { FINISH_TOOL } from '../../src/tools/finish.ts';
import { makeRules, terminal } from '../rules/rules.ts';
import { makeTool } from '../tools/tools.ts';
import { makeCall, makeRun } from './facts.ts';

const lookup = makeTool('lookup', { type: 'object' });

function settled(
  planned: Partial<SettledCall['planned']>,
  outcome: SettledCall['outcome'] = { ok: true, result: 'ok' },
): SettledCall {
  return {
    planned: makeCall({ tool: lookup, ...planned }),
    outcome,
  };
}

describe('a run that calls a tool with other arguments each time, and always has the same result', () => {
  /** Returns the step at which it is stopped; null for none of thirty. */
  function stoppedAt(planned: Partial<SettledCall['planned']>): number | null {
    let run = makeRun({ state: 'acting', max_steps: 100 });
    for (let step = 1; step <= 30; step++) {
      const { run: move } = decideResults(run, [settled({ ...planned, args: { step } })]);
      if (move.state !== 'ready') return step;
      run = { ...run, step_number: move.step_number, trail: move.trail ?? null };
    }
    return null;
  }

  test('is stopped if it only reads: it pays for nothing new', () => {
    expect(stoppedAt({ tool: { ...lookup, side_effects: 'none' } })).toBe(10);
  });

  test.each<[string, Partial<SettledCall['planned']>]>([
    ['which may be repeated', { tool: { ...lookup, side_effects: 'idempotent' } }],
    ['which acts once', { tool: { ...lookup, side_effects: 'once' } }],
    ['which its definition no longer has', { tool: null }],
    ['which writes memory', { kind: 'memory', tool: { ...lookup, side_effects: 'none' } }],
    ['which the caller carries out', { kind: 'client', tool: { ...lookup, side_effects: 'none' } }],
  ])('%s goes on: each of its calls changes something', (_what, planned) => {
    expect(stoppedAt(planned)).toBeNull();
  });
});

describe('a run that ends by its calls of finish', () => {
  const finish = (ok: boolean, result: string, given?: Json): SettledCall =>
    settled(
      {
        tool_name: 'finish',
        kind: ok ? 'finish' : 'rejected',
        args: given === undefined ? {} : { result: given },
        tool: FINISH_TOOL,
      },
      { ok, result },
    );
  const policy = {
    ...NO_TOOL_POLICY,
    available: ['lookup', 'finish'],
    rules: makeRules(terminal('finish')),
    result: { by: 'finish', instructions: '', check: () => null } as const,
  };
  const endOf = (...calls: SettledCall[]) =>
    decideResults(makeRun({ state: 'acting', step_number: 10 }), calls, policy).run;
  const missed = 'The run ended without the result that it owes: step limit reached.';
  const told = (refusal: string) => `${missed} Its last call to hand it over was refused: ${refusal}.`;

  test('has the first accepted result', () => {
    for (const calls of [
      [finish(true, 'taken', 1)],
      [finish(true, 'taken', 1), finish(true, 'taken', 2)],
      [finish(false, 'too early', 0), finish(true, 'taken', 1)],
      [settled({}), finish(true, 'taken', 1)],
    ])
      expect(endOf(...calls)).toEqual({
        state: 'completed',
        stop_reason: 'tool_rule',
        error: null,
        result: 1,
      });
  });

  test.each<[string, string, SettledCall[]]>([
    [
      'why the last of them was refused',
      told('n is missing'),
      [finish(false, 'a'), finish(false, 'n is missing.')],
    ],
    [
      'that alone, though another call failed after it',
      told('a'),
      [finish(false, 'a'), settled({}, { ok: false, result: 'b' })],
    ],
    ['nothing more where none was called', missed, [settled({}, { ok: false, result: 'b' })]],
    [
      'nothing more where a tool that is gone failed',
      missed,
      [settled({ tool: null }, { ok: false, result: 'b' })],
    ],
  ])('without a result tells its user %s', (_what, message, calls) => {
    expect(endOf(...calls)).toEqual({ state: 'failed', stop_reason: 'max_steps', error: { message } });
  });

  test('owes none where the step limit ends it and no result is asked for', () => {
    const run = makeRun({ state: 'acting', step_number: 10 });
    const { run: end } = decideResults(
      run,
      [settled({ kind: 'finish', args: { result: 1 } })],
      NO_TOOL_POLICY,
    );
    expect(end).toEqual({ state: 'completed', stop_reason: 'max_steps', error: null });
  });
});

test('a run that goes round in circles tells its user why its result was refused', () => {
  const run = makeRun({
    state: 'acting',
    trail: { ...NO_TRAIL, refusal: 'n is missing', steps: { prints: [], seen: [], stalled: 8 } },
  });
  const failing = settled({}, { ok: false, result: 'error' });
  expect(decideResults(run, [failing]).run).toMatchObject({
    stop_reason: 'loop_detected',
    error: { message: expect.stringMatching(/brought nothing new.*refused: n is missing\.$/) as string },
  });
});

test('every end by results names the run, its step and a reason for the log', () => {
  const run = makeRun({ state: 'acting', step_number: 3, last_seq: 5 });
  const named = {
    run_id: run.id,
    step_number: 3,
    reason: expect.stringMatching(/\w/) as string,
    message: {
      seq: 6,
      role: 'user',
      content_json: expect.stringContaining('"tool_use_id":"a"') as string,
      shown: true,
    },
  };
  const poisoned = decidePoisonedResults(run, [{ type: 'tool_use', id: 'a', name: 'lookup', input: {} }], []);
  expect(poisoned).toMatchObject({
    ...named,
    run: { stop_reason: 'poison', error: { message: expect.stringMatching(/\w/) as string } },
  });
  const stalled = { ...NO_TRAIL, steps: { prints: [], seen: [], stalled: 8 } };
  for (const rest of [
    {},
    { batch_state: 'cancelling' as const },
    { is_overdue: true },
    { max_steps: 3 },
    { trail: stalled },
  ])
    expect(decideResults({ ...run, ...rest }, [settled({}, { ok: false, result: 'e' })])).toMatchObject(
      named,
    );
});
