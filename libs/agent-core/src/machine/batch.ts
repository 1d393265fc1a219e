import type { Machine } from './machine.ts';

/*
 *   receiving ─► running ─► completed | failed
 *                 │  ▲              ▲
 *                 ▼  │              │
 *               paused ─────────────┘
 *   running, paused ─► cancelling ─► cancelled
 */

export type BatchState =
  'receiving' | 'running' | 'paused' | 'cancelling' | 'completed' | 'cancelled' | 'failed';
export type BatchEvent = 'accept' | 'pause' | 'resume' | 'cancel' | 'complete' | 'fail' | 'finish_cancel';

export const batchMachine: Machine<BatchState, BatchEvent> = {
  name: 'batch',
  initial: ['receiving'],
  states: {
    receiving: {
      meaning: 'Its runs are still being stored; none is visible to a worker.',
      next: 'The API, in the transaction or upload that brings the runs.',
      wakes: 'The request itself; an upload that is never finished is failed after a day.',
    },
    running: {
      meaning: 'Every run is stored; at least one has not ended.',
      next: 'Workers, through its runs; the finish flow once the last run has ended.',
      wakes: 'The commit that ends a run makes the batch due; at most the provider window per step.',
    },
    paused: {
      meaning: 'No new step is sent; steps at the provider are still taken in. The reason is on the row.',
      next: 'An operator, or the cap being raised; the finish flow if the steps at the provider were its last.',
      wakes: 'A resume request; it may last for ever.',
    },
    cancelling: {
      meaning:
        'No new step is sent; waiting runs have ended as cancelled; steps at the provider are awaited.',
      next: 'The cancel and ingest flows, then the finish flow.',
      wakes: 'Ends of provider batches; at most the provider window.',
    },
    completed: {
      meaning: 'Every run has ended and at least one completed. Failed runs show in its counts.',
      next: 'Nobody.',
      wakes: 'Final.',
    },
    cancelled: { meaning: 'Every run has ended after a cancel request.', next: 'Nobody.', wakes: 'Final.' },
    failed: { meaning: 'Every run has ended and none completed.', next: 'Nobody.', wakes: 'Final.' },
  },
  events: {
    accept: { from: ['receiving'], to: 'running' },
    pause: { from: ['running'], to: 'paused' },
    resume: { from: ['paused'], to: 'running' },
    cancel: { from: ['receiving', 'running', 'paused'], to: 'cancelling' },
    complete: { from: ['running', 'paused'], to: 'completed' },
    fail: { from: ['receiving', 'running', 'paused'], to: 'failed' },
    finish_cancel: { from: ['cancelling'], to: 'cancelled' },
  },
};

export const BATCH_STATES = Object.keys(batchMachine.states) as BatchState[];
