import type { StepKey } from '../base/ids.ts';
import { transition } from '../machine/machine.ts';
import { runMachine, type RunEvent } from '../machine/run.ts';
import { stepMachine, type StepEvent } from '../machine/step.ts';
import { NO_USAGE } from '../model/usage.ts';
import type { AppendedMessage, RunFacts, RunMove, StepDecision } from './decision.ts';
import type { StepBill } from './step-outcome.ts';

/** The event of the run's machine that each move is. */
export const EVENT_OF_MOVE: Readonly<Record<RunMove['state'], RunEvent>> = {
  ready: 'continue',
  acting: 'act',
  requires_action: 'await_caller',
  completed: 'complete',
  failed: 'fail',
  cancelled: 'cancel',
  expired: 'expire',
};

/** The decision about a sealed step. Throws where step or run cannot go that way. */
export function decided(
  run: RunFacts,
  key: StepKey,
  event: StepEvent,
  reason: string,
  what: { bill: StepBill | null; error?: StepDecision['step']['error'] },
  messages: readonly AppendedMessage[],
  move: RunMove,
): StepDecision {
  const state = transition(stepMachine, 'sealed', event);
  transition(runMachine, run.state, EVENT_OF_MOVE[move.state]);
  const { bill } = what;
  return {
    kind: 'apply',
    key,
    reason,
    step: {
      from: 'sealed',
      state,
      applies: event === 'answer' || event === 'settle',
      stop_reason: bill?.stop_reason ?? null,
      error: what.error ?? null,
      usage: bill?.usage ?? NO_USAGE,
      cost_nanousd: bill === null ? 0 : bill.cost_nanousd,
      message_id: bill?.message_id ?? null,
      model: bill?.model ?? null,
    },
    messages,
    summary: null,
    run: move,
  };
}
