import type { StepKey } from '../../src/base/ids.ts';
import { callsToPlan, decideStep } from '../../src/decide/decide-step.ts';
import type { Refusal, RetryPolicy, RunFacts, StepDecision } from '../../src/decide/decision.ts';
import type { StepCall } from '../../src/decide/step-calls.ts';
import type { StepAnswer, StepOutcome } from '../../src/decide/step-outcome.ts';
import { NO_TOOL_POLICY } from '../../src/decide/tool-policy.ts';
import type { ContentBlock } from '../../src/model/content.ts';
import type { PlannedCall } from '../../src/model/planned-call.ts';

export const RUN_ID = '019a1b2c-3d4e-7f60-8a1b-2c3d4e000000';

/** Makes a run whose first step of ten is at the provider, with defaults for the rest. */
export function makeRun(rest: Partial<RunFacts> = {}): RunFacts {
  return {
    id: RUN_ID,
    batch_state: 'running',
    state: 'in_flight',
    step_number: 1,
    attempt: 1,
    failures: 0,
    max_steps: 10,
    token_boost: 0,
    last_seq: 4,
    trail: null,
    summarises_to_seq: null,
    ...rest,
  };
}

/** Returns the step that the run waits for. */
export function keyOf(run: RunFacts): StepKey {
  return { run_id: run.id, number: run.step_number, attempt: run.attempt };
}

export const text = (said: string): ContentBlock => ({ type: 'text', text: said });
export const call = (id: string, name = 'lookup', input: ContentBlock = { type: 'x' }): ContentBlock => ({
  type: 'tool_use',
  id,
  name,
  input,
});

/** Makes a paid answer of the model. */
export function makeAnswer(stop_reason: string | null, content: readonly ContentBlock[]): StepAnswer {
  return {
    content,
    content_json: JSON.stringify(content),
    stop_reason,
    usage: {
      input_tokens: 100,
      output_tokens: 20,
      cache_write_5m_tokens: 0,
      cache_write_1h_tokens: 0,
      cache_read_tokens: 50,
    },
    cost_nanousd: 1234,
    message_id: 'msg_1',
    model: 'claude-sonnet-5-5',
  };
}

/** Makes a call of an operator's tool, with defaults for the rest. */
export function makeCall(rest: Partial<PlannedCall> = {}): PlannedCall {
  return {
    index: 0,
    tool_use_id: 'a',
    tool_name: 'lookup',
    kind: 'module',
    args: {},
    rejection: null,
    awaits: null,
    prefill_error: null,
    tool: null,
    ...rest,
  };
}

/** Decides about a line. All calls of its answer are for the tool host. */
export function decideLine(
  run: RunFacts,
  key: StepKey,
  outcome: StepOutcome,
  retry: RetryPolicy,
  toolPolicy = NO_TOOL_POLICY,
): StepDecision | Refusal {
  const calls = callsToPlan(run, key, outcome).map(({ id, name }, index): StepCall => {
    return { planned: makeCall({ index, tool_use_id: id, tool_name: name }), outcome: null };
  });
  return decideStep({ run, key, retry, toolPolicy, calls }, outcome);
}
