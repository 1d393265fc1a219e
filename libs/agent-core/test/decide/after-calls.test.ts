import { describe, expect, test } from 'vitest';
import { callsToPlan, decideStep } from '../../src/decide/decide-step.ts';
import { RETRY_POLICY_DEFAULT, type RunFacts } from '../../src/decide/decision.ts';
import type { StepCall } from '../../src/decide/step-calls.ts';
import type { BlockChange } from '../../src/model/block-change.ts';
import type { StepMemory } from '../../src/model/tool-call.ts';
import { RESULT_TAKEN } from '../../src/tools/finish.ts';
import { call, keyOf, makeAnswer, makeCall, makeRun, text } from './facts.ts';

const CHANGE = { kind: 'detached' } as unknown as BlockChange;
const writing: StepMemory = {
  carryOut: ({ tool_use_id }) => ({
    outcome: { ok: true, result: `wrote ${tool_use_id}` },
    changes: [CHANGE],
  }),
};
const answer = (stopReason: string | null = 'tool_use', content = [text('so'), call('a'), call('b')]) =>
  ({ kind: 'answered', answer: makeAnswer(stopReason, content) }) as const;

function decide(calls: readonly StepCall[], rest: Partial<RunFacts> = {}) {
  const run = makeRun(rest);
  const decision = decideStep(
    { run, key: keyOf(run), retry: RETRY_POLICY_DEFAULT, calls },
    answer(),
    writing,
  );
  if (decision.kind === 'refuse') throw new Error(`refused as ${decision.reason}`);
  return decision;
}

const open = (rest: Parameters<typeof makeCall>[0] = {}): StepCall => ({
  planned: makeCall(rest),
  outcome: null,
});
const asking = open();
const writingA = open({ kind: 'memory' });
const writingB = open({ kind: 'memory', index: 1, tool_use_id: 'b' });
const refused = open({ kind: 'rejected', rejection: 'No such tool.', index: 1, tool_use_id: 'b' });
const finishing = open({ kind: 'finish', index: 1, tool_use_id: 'b' });
const approval = open({ kind: 'memory', awaits: 'approval', index: 1, tool_use_id: 'b' });
const mine = open({ kind: 'client', awaits: 'answer', index: 1, tool_use_id: 'b' });
const replied: StepCall = { planned: makeCall(), outcome: { ok: false, result: 'no' }, duration_ms: 7 };

describe('calls of an answer', () => {
  test.each<[string, readonly StepCall[], string, string]>([
    ['to the tool host', [asking], 'answered acting', 'pending'],
    ['to memory and the tool host', [asking, writingB], 'answered acting', 'pending succeeded'],
    ['to memory alone', [writingA, writingB], 'done ready', 'succeeded succeeded'],
    ['that are refused', [refused], 'done ready', 'failed'],
    ['that finish', [writingA, finishing], 'done ready', 'succeeded succeeded'],
    ['that are answered already', [replied, writingB], 'done ready', 'failed succeeded'],
    ['one of which needs an approval', [writingA, approval], 'answered requires_action', 'succeeded pending'],
    ['one of which only the caller answers', [replied, mine], 'answered requires_action', 'failed pending'],
  ])('%s', (_what, calls, states, callStates) => {
    const decision = decide(calls);
    expect(`${decision.step.state} ${decision.run.state}`).toBe(states);
    expect(decision.calls.map(({ state }) => state).join(' ')).toBe(callStates);
    const isDone = decision.step.state === 'done';
    expect(decision.messages.map(({ seq, role }) => `${seq} ${role}`)).toEqual(
      isDone ? ['5 assistant', '6 user'] : ['5 assistant'],
    );
    // Results are held on the rows only while others are awaited.
    const held = decision.calls.filter(({ held_result }) => held_result !== null);
    expect(held).toEqual(isDone ? [] : decision.calls.filter(({ state }) => state !== 'pending'));
  });

  test('are written as planned and ended', () => {
    expect(decide([replied, approval]).calls).toEqual([
      {
        ...{ call_index: 0, tool_use_id: 'a', tool_name: 'lookup', kind: 'module' },
        ...{ state: 'failed', held_result: 'no', awaits: null, duration_ms: 7 },
      },
      {
        ...{ call_index: 1, tool_use_id: 'b', tool_name: 'lookup', kind: 'memory' },
        ...{ state: 'pending', held_result: null, awaits: 'approval', duration_ms: 0 },
      },
    ]);
  });

  test('include their memory changes, in call order', () => {
    expect(decide([writingA, writingB]).changes).toEqual([CHANGE, CHANGE]);
    expect(decide([asking, writingB]).changes).toEqual([CHANGE]);
    expect(decide([asking, approval]).changes).toEqual([]);
  });

  test('send their results to the model in one message', () => {
    const [, results] = decide([writingA, finishing]).messages;
    expect(JSON.parse(results?.content_json ?? '')).toEqual([
      { type: 'tool_result', tool_use_id: 'a', content: 'wrote a' },
      { type: 'tool_result', tool_use_id: 'b', content: RESULT_TAKEN },
    ]);
    expect(decide([refused]).messages[1]?.content_json).toContain('No such tool.');
    const bare = open({ kind: 'rejected', rejection: null });
    expect(decide([bare]).messages[1]?.content_json).toContain('The call was rejected.');
  });

  test('end the run with their results, where it has no step left', () => {
    expect(decide([writingA], { step_number: 10 }).run).toMatchObject({ stop_reason: 'max_steps' });
  });

  test('must have been planned', () => {
    expect(() => decide([])).toThrow('were not planned');
  });
});

describe('calls to be planned', () => {
  const planned = (outcome: Parameters<typeof callsToPlan>[2], rest: Partial<RunFacts> = {}, attempt = 1) =>
    callsToPlan(makeRun(rest), { ...keyOf(makeRun()), attempt }, outcome).map(({ id }) => id);

  test.each(['tool_use', 'end_turn', 'stop_sequence', 'pause_turn'])(
    'are those of an answer that stops for %s',
    (stop) => {
      expect(planned(answer(stop))).toEqual(['a', 'b']);
    },
  );

  test.each(['refusal', 'max_tokens', 'model_context_window_exceeded', 'compaction', null])(
    'are none of an answer that stops for %s',
    (stop) => {
      expect(planned(answer(stop))).toEqual([]);
    },
  );

  test('are none where none would be carried out', () => {
    expect(planned({ kind: 'expired' })).toEqual([]);
    expect(planned(answer(), { state: 'ready' })).toEqual([]);
    expect(planned(answer(), {}, 2)).toEqual([]);
    expect(planned(answer(), { batch_state: 'cancelling' })).toEqual([]);
    expect(planned(answer(), { summarises_to_seq: 3 })).toEqual([]);
    expect(planned(answer('tool_use', [call('a'), call('a')]))).toEqual([]);
    expect(planned(answer('tool_use', [text('so')]))).toEqual([]);
  });
});
