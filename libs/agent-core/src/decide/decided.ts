import type { StepKey } from '../base/ids.ts';
import { transition } from '../machine/machine.ts';
import { runMachine, type RunEvent } from '../machine/run.ts';
import { stepMachine, type StepEvent } from '../machine/step.ts';
import type { StepMemory } from '../model/tool-call.ts';
import { NO_USAGE } from '../model/usage.ts';
import type { AppendedMessage, RunFacts, RunMove, StepDecision } from './decision.ts';
import type { StepCall } from './step-calls.ts';
import type { StepAnswer, StepBill } from './step-outcome.ts';
import type { ToolPolicy } from './tool-policy.ts';

/** An answer and its run. */
export interface Answered {
  readonly run: RunFacts;
  readonly key: StepKey;
  readonly answer: StepAnswer;
  readonly toolPolicy: ToolPolicy;
  /** The planned calls of the answer. */
  readonly calls: readonly StepCall[];
  readonly memory: StepMemory;
}

/** Returns the message of an answer; none without content. */
export function messagesOf({ run, answer }: Answered, shown: boolean): readonly AppendedMessage[] {
  if (answer.content.length === 0) return [];
  return [{ seq: run.last_seq + 1, role: 'assistant', content_json: answer.content_json, shown }];
}

const NONE: readonly [] = [];

/** Parts of a decision besides messages and move. */
interface Written extends Partial<Pick<StepDecision, 'calls' | 'changes'>> {
  readonly bill: StepBill | null;
  readonly error?: StepDecision['step']['error'];
}

/** The run event of each move. */
export const EVENT_OF_MOVE: Readonly<Record<RunMove['state'], RunEvent>> = {
  ready: 'continue',
  acting: 'act',
  requires_action: 'await_caller',
  completed: 'complete',
  failed: 'fail',
  cancelled: 'cancel',
  expired: 'expire',
};

/**
 * Makes the decision about a sealed step.
 * Throws: where step or run has no such transition.
 */
export function decided(
  run: RunFacts,
  key: StepKey,
  event: StepEvent,
  reason: string,
  { bill, error, calls = NONE, changes = NONE }: Written,
  messages: readonly AppendedMessage[],
  move: RunMove,
): StepDecision {
  const state = transition(stepMachine, 'sealed', event);
  transition(runMachine, run.state, EVENT_OF_MOVE[move.state]);
  return {
    kind: 'apply',
    key,
    reason,
    step: {
      from: 'sealed',
      state,
      applies: event === 'answer' || event === 'settle',
      stop_reason: bill?.stop_reason ?? null,
      error: error ?? null,
      usage: bill?.usage ?? NO_USAGE,
      cost_nanousd: bill === null ? 0 : bill.cost_nanousd,
      message_id: bill?.message_id ?? null,
      model: bill?.model ?? null,
    },
    messages,
    calls,
    changes,
    summary: null,
    run: move,
  };
}
