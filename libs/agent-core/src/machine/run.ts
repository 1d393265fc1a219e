import type { Machine } from './machine.ts';

/*
 *   queued ─► ready ─► in_flight ─► acting ─► ready …
 *                 ▲        │           │
 *                          └─► requires_action ─► acting
 *   any of them ─► completed | failed | cancelled | expired
 */

export type RunState =
  | 'queued'
  | 'ready'
  | 'in_flight'
  | 'acting'
  | 'requires_action'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'expired';

export type RunEvent =
  | 'start'
  | 'seal'
  | 'unseal'
  | 'act'
  | 'await_caller'
  | 'continue'
  | 'complete'
  | 'fail'
  | 'cancel'
  | 'expire';

/** Stop reasons. Every ended run has exactly one. */
export const STOP_REASONS = [
  'end_turn',
  'tool_rule',
  'max_steps',
  'max_tokens',
  'stop_sequence',
  'refusal',
  'budget_exceeded',
  'loop_detected',
  'context_overflow',
  'no_valid_tools',
  'invalid_request',
  'provider_error',
  'unusable_answer',
  'expired',
  'cancelled',
  'deadline',
  'poison',
] as const;
export type StopReason = (typeof STOP_REASONS)[number];

export const runMachine: Machine<RunState, RunEvent> = {
  name: 'run',
  initial: ['queued'],
  states: {
    queued: {
      meaning: 'Another run holds its conversation. Its input is not yet in the conversation.',
      next: 'The commit that ends the holding run, or the sweep.',
      wakes: 'The end of the holding run.',
    },
    ready: {
      meaning: 'It holds its conversation. step_number and attempt name its next step.',
      next: 'The compose flow of any worker.',
      wakes: 'next_due_at: the gather window, or the backoff of a retry.',
    },
    in_flight: {
      meaning: 'Its current step is sealed into a provider batch that is not ingested yet.',
      next: 'The submit, poll and ingest flows, through the provider batch.',
      wakes: 'The provider batch. At most the provider window.',
    },
    acting: {
      meaning: 'Its answer is stored. A worker must carry out its open calls.',
      next: 'The run-tool-calls flow of any worker, through a run chunk.',
      wakes: 'Its run chunk. At most the lease plus the deadline of its calls.',
    },
    requires_action: {
      meaning: 'Its answer calls a client tool, or a tool that needs approval.',
      next: 'The caller, through POST /v1/runs/{run_id}/tool-results. Or a cancel. After its deadline: the sweep.',
      wakes: 'The last missing answer, a cancel request, or its deadline. Without a deadline no time limit.',
    },
    completed: {
      meaning: 'It ended with success. The stop reason says how.',
      next: 'No action.',
      wakes: 'Final.',
    },
    failed: {
      meaning: 'It ended without success. Stop reason and error say why.',
      next: 'No action.',
      wakes: 'Final.',
    },
    cancelled: {
      meaning: 'It ended by request. Paid answers are stored.',
      next: 'No action.',
      wakes: 'Final.',
    },
    expired: {
      meaning: 'The provider let every attempt of a step expire.',
      next: 'No action.',
      wakes: 'Final.',
    },
  },
  events: {
    start: { from: ['queued'], to: 'ready' },
    seal: { from: ['ready'], to: 'in_flight' },
    unseal: { from: ['in_flight'], to: 'ready' },
    act: { from: ['in_flight', 'requires_action'], to: 'acting' },
    await_caller: { from: ['in_flight'], to: 'requires_action' },
    continue: { from: ['in_flight', 'acting'], to: 'ready' },
    complete: { from: ['in_flight', 'acting'], to: 'completed' },
    fail: { from: ['queued', 'ready', 'in_flight', 'acting'], to: 'failed' },
    cancel: { from: ['queued', 'ready', 'in_flight', 'acting'], to: 'cancelled' },
    expire: { from: ['in_flight'], to: 'expired' },
  },
};

export const RUN_STATES = Object.keys(runMachine.states) as RunState[];
export const ENDED_RUN_STATES = ['completed', 'failed', 'cancelled', 'expired'] as const satisfies RunState[];

/** Returns whether the run has ended, and so cannot change any more. */
export function isRunEnded(state: RunState): boolean {
  return (ENDED_RUN_STATES as readonly RunState[]).includes(state);
}
