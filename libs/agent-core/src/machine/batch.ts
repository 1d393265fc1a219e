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
      meaning: 'Its runs are being made of its source, portion by portion. No step is sent yet.',
      next: 'The accept flow, which continues behind the last portion. A cancel keeps the runs stored so far.',
      wakes: 'The request that stored it.',
    },
    running: {
      meaning: 'All runs are stored, and at least one run has not ended.',
      next: 'Workers, through its runs. After the last run: the finish flow.',
      wakes: 'The commit that ends a run. At most the provider window per step.',
    },
    paused: {
      meaning:
        'No new step is sent. Results of steps at the provider are still ingested. The row has the reason.',
      next: 'The user, who resumes it or raises its cap. After the last run: the finish flow.',
      wakes: 'A resume request. No time limit.',
    },
    cancelling: {
      meaning: 'No new step is sent. Waiting runs are cancelled. Steps at the provider are awaited.',
      next: 'The cancel and ingest flows, then the finish flow.',
      wakes: 'The end of a provider batch. At most the provider window.',
    },
    completed: {
      meaning: 'All runs have ended, and at least one run completed. The counts show failed runs.',
      next: 'No action.',
      wakes: 'Final.',
    },
    cancelled: {
      meaning: 'All runs have ended after a cancel request.',
      next: 'No action.',
      wakes: 'Final.',
    },
    failed: { meaning: 'All runs have ended, and no run completed.', next: 'No action.', wakes: 'Final.' },
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
