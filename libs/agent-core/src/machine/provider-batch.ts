import type { Machine } from './machine.ts';

/*
 *   building ─► submitting ─► submitted ─► ended ─► ingested
 *      ▲ │          │ ▲            └─► cancelling ─► ended
 *      │ └► rejected│ └──────┐
 *      └────────────┴─► unknown ─► submitted (adopted)
 *   submitted, cancelling ─► rejected    (the provider lost it)
 *   submitted, cancelling, ended ─► unknown    (the adopted batch is foreign)
 *   orphan_paid    (found at the provider, of a submission that went another way)
 */

export type ProviderBatchState =
  | 'building'
  | 'submitting'
  | 'submitted'
  | 'ended'
  | 'ingested'
  | 'unknown'
  | 'rejected'
  | 'cancelling'
  | 'orphan_paid';

export type ProviderBatchEvent =
  | 'write_ahead'
  | 'accept'
  | 'refuse'
  | 'doubt'
  | 'adopt'
  | 'withdraw'
  | 'disprove'
  | 'reject'
  | 'cancel'
  | 'end'
  | 'ingest';

export const providerBatchMachine: Machine<ProviderBatchState, ProviderBatchEvent> = {
  name: 'provider batch',
  initial: ['building', 'orphan_paid'],
  states: {
    building: {
      meaning: 'Its steps are sealed under its nonce. The provider has accepted nothing under that nonce.',
      next: 'The submit flow.',
      wakes: 'next_due_at. As long as the credential is busy, paused or in backoff.',
    },
    submitting: {
      meaning: 'Count, size and hash are stored. The request may be on its way.',
      next: 'The worker that holds the lease. After the lease: the reconcile flow.',
      wakes: 'The end of the lease.',
    },
    submitted: {
      meaning: 'The provider has it under provider_id.',
      next: 'The poll flow.',
      wakes:
        'next_due_at: when its end is likely, or the poll interval, which grows after an hour. At most the provider window.',
    },
    ended: {
      meaning: 'The provider has finished. The results are not read yet.',
      next: 'The ingest flow.',
      wakes: 'next_due_at. Until every step has its line.',
    },
    ingested: {
      meaning: 'No step of it is sealed any more.',
      next: 'No action.',
      wakes: 'Final.',
    },
    unknown: {
      meaning: 'A create was sent without a clear answer. The provider may have the batch.',
      next: 'The reconcile flow, after the quarantine.',
      wakes: 'next_due_at: the end of the quarantine.',
    },
    rejected: {
      meaning: 'The provider refused or lost it, or all its steps were taken out. It has no open step.',
      next: 'No action.',
      wakes: 'Final.',
    },
    cancelling: {
      meaning: 'The provider was asked to cancel it, and still finishes started requests.',
      next: 'The poll flow.',
      wakes: 'next_due_at: when its end is likely, or the poll interval, which grows after an hour.',
    },
    orphan_paid: {
      meaning: 'A second batch at the provider for one submission. Booked, never applied.',
      next: 'No action.',
      wakes: 'Final.',
    },
  },
  events: {
    write_ahead: { from: ['building'], to: 'submitting' },
    accept: { from: ['submitting'], to: 'submitted' },
    refuse: { from: ['submitting'], to: 'building' },
    doubt: { from: ['submitting'], to: 'unknown' },
    adopt: { from: ['unknown'], to: 'submitted' },
    withdraw: { from: ['unknown'], to: 'building' },
    disprove: { from: ['submitted', 'cancelling', 'ended'], to: 'unknown' },
    reject: { from: ['building', 'submitting', 'unknown', 'submitted', 'cancelling'], to: 'rejected' },
    cancel: { from: ['submitted'], to: 'cancelling' },
    end: { from: ['submitted', 'cancelling'], to: 'ended' },
    ingest: { from: ['ended'], to: 'ingested' },
  },
};

export const PROVIDER_BATCH_STATES = Object.keys(providerBatchMachine.states) as ProviderBatchState[];
