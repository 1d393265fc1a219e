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

/** Why a run ended. Every ended run has one. */
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
      meaning: 'Another run holds its conversation; its input is not yet part of it.',
      next: 'The commit that ends the holding run, or the sweep.',
      wakes: 'The end of the holder.',
    },
    ready: {
      meaning: 'It holds its conversation; step_number and attempt name the step to be sent next.',
      next: 'The compose flow of any worker.',
      wakes: 'next_due_at; lasts the gather window, or the back-off of a retry.',
    },
    in_flight: {
      meaning: 'Its current step is sealed into a provider batch that has not been ingested.',
      next: 'The submit, poll and ingest flows, through the provider batch.',
      wakes: 'The provider batch; at most the provider window.',
    },
    acting: {
      meaning: 'Its answer is stored, and whatever its calls still need is to be done by a worker.',
      next: 'The run-tool-calls flow of any worker, through a run chunk.',
      wakes: 'Its run chunk; at most the lease plus the deadline of its calls.',
    },
    requires_action: {
      meaning: 'Its answer calls a client tool or a tool that needs approval; nobody here can go on.',
      next: 'The caller, through POST /v1/runs/{run_id}/tool-results; the cancel flow; or, past its deadline, the sweep.',
      wakes:
        'The answer to the last call that awaits one, a cancel request, or its deadline; without one it may last for ever.',
    },
    completed: { meaning: 'It ended well; the stop reason says how.', next: 'Nobody.', wakes: 'Final.' },
    failed: {
      meaning: 'It ended without success; stop reason and error say why.',
      next: 'Nobody.',
      wakes: 'Final.',
    },
    cancelled: { meaning: 'It ended by request; what was paid is stored.', next: 'Nobody.', wakes: 'Final.' },
    expired: { meaning: 'The provider let its step expire too often.', next: 'Nobody.', wakes: 'Final.' },
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

/** True once nothing about the run can change. */
export function isRunEnded(state: RunState): boolean {
  return (ENDED_RUN_STATES as readonly RunState[]).includes(state);
}
