import type { NewToolCall } from '../model/tool-call.ts';
import { afterResults } from './after-tools.ts';
import { decided, messagesOf, type Answered } from './decided.ts';
import type { StepDecision } from './decision.ts';
import { areSettled, carryOutBuiltIn, type StepCall } from './step-calls.ts';

/**
 * Decides about an answer with calls. Calls of built-in tools are carried out.
 * Once every call has ended, the same decision returns the results to the model. Until then they are held.
 */
export function afterCalls(answered: Answered): StepDecision {
  const { run, key, answer, toolPolicy, memory } = answered;
  const { calls, changes } = carryOutBuiltIn(answered.calls, memory, true);
  const said = messagesOf(answered, true);
  const isComplete = areSettled(calls);
  const rows = calls.map((call) => newToolCall(call, isComplete));
  const parts = { bill: answer, calls: rows, changes };
  if (isComplete) {
    const { reason, message, move } = afterResults(run, run.last_seq + said.length, calls, toolPolicy);
    return decided(run, key, 'settle', reason, parts, [...said, message], move);
  }
  return calls.some(({ planned }) => planned.awaits !== null)
    ? decided(run, key, 'answer', 'waits for the caller', parts, said, { state: 'requires_action' })
    : decided(run, key, 'answer', 'calls tools', parts, said, { state: 'acting' });
}

function newToolCall({ planned, outcome, duration_ms = 0 }: StepCall, isComplete: boolean): NewToolCall {
  const { index, tool_use_id, tool_name, kind, awaits } = planned;
  return {
    call_index: index,
    tool_use_id,
    tool_name,
    kind,
    state: outcome === null ? 'pending' : outcome.ok ? 'succeeded' : 'failed',
    held_result: isComplete || outcome === null ? null : outcome.result,
    awaits,
    duration_ms,
  };
}
