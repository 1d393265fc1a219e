import type { Machine } from './machine.ts';

/*
 *   sealed ─► answered ─► done
 *      ├────────────────► done
 *      └─► lost | errored | expired | canceled      (then perhaps a new attempt)
 */

export type StepState = 'sealed' | 'answered' | 'done' | 'lost' | 'errored' | 'expired' | 'canceled';
export type StepEvent = 'answer' | 'settle' | 'lose' | 'error' | 'expire' | 'cancel';

export const stepMachine: Machine<StepState, StepEvent> = {
  name: 'step',
  initial: ['sealed'],
  states: {
    sealed: {
      meaning: 'Its request is fixed: provider batch, ordinal, context range, block revisions.',
      next: 'Ingest, when its result line arrives.',
      wakes: 'The provider batch.',
    },
    answered: {
      meaning: 'Its answer is applied and paid. Calls for the tool host are open.',
      next: 'The run-tool-calls flow.',
      wakes: 'Its run chunk.',
    },
    done: {
      meaning: 'Its answer is applied, and every call has a result.',
      next: 'No action.',
      wakes: 'Final.',
    },
    lost: { meaning: 'It will never get an answer.', next: 'No action.', wakes: 'Final.' },
    errored: {
      meaning: 'The provider answered with an error or an unusable answer. Its cost is booked.',
      next: 'No action.',
      wakes: 'Final.',
    },
    expired: {
      meaning: 'The provider window closed before it was processed.',
      next: 'No action.',
      wakes: 'Final.',
    },
    canceled: { meaning: 'It was cancelled at the provider, unpaid.', next: 'No action.', wakes: 'Final.' },
  },
  events: {
    answer: { from: ['sealed'], to: 'answered' },
    settle: { from: ['sealed', 'answered'], to: 'done' },
    lose: { from: ['sealed'], to: 'lost' },
    error: { from: ['sealed'], to: 'errored' },
    expire: { from: ['sealed'], to: 'expired' },
    cancel: { from: ['sealed'], to: 'canceled' },
  },
};

export const STEP_STATES = Object.keys(stepMachine.states) as StepState[];
