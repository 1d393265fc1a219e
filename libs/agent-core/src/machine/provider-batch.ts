import type { Machine } from './machine.ts';

/*
 *   building ─► submitting ─► submitted ─► ended ─► ingested
 *      ▲ │          │ ▲            └─► cancelling ─► ended
 *      │ └► rejected│ └──────┐
 *      └────────────┴─► unknown ─► submitted (adopted)
 *   submitted, cancelling ─► rejected    (the provider lost it)
 *   submitted, cancelling, ended ─► unknown    (what was adopted is not ours)
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
      meaning: 'Its steps are sealed under its nonce; the provider has accepted nothing under that nonce.',
      next: 'The submit flow.',
      wakes: 'next_due_at; lasts as long as the credential is busy, paused or backing off.',
    },
    submitting: {
      meaning: 'Count, size and hash are written; the request may be on its way.',
      next: 'The worker whose lease it is; after its lease the reconcile flow.',
      wakes: 'The end of the lease.',
    },
    submitted: {
      meaning: 'The provider has it under provider_id.',
      next: 'The poll flow.',
      wakes: 'next_due_at, the poll interval, which is longer after an hour; at most the provider window.',
    },
    ended: {
      meaning: 'The provider has finished; results are waiting to be streamed.',
      next: 'The ingest flow.',
      wakes: 'next_due_at; lasts until every step has its line.',
    },
    ingested: {
      meaning: 'Every step of it has left the state sealed.',
      next: 'Nobody.',
      wakes: 'Final.',
    },
    unknown: {
      meaning: 'A create was sent and we cannot tell whether the provider has it.',
      next: 'The reconcile flow, after the quarantine.',
      wakes: 'next_due_at, the end of the quarantine.',
    },
    rejected: {
      meaning:
        'The provider refused it for good or lost it, or all its steps were taken back. It has no open step.',
      next: 'Nobody.',
      wakes: 'Final.',
    },
    cancelling: {
      meaning: 'The provider was asked to cancel it and still finishes what it had begun.',
      next: 'The poll flow.',
      wakes: 'next_due_at, the poll interval, which is longer after an hour.',
    },
    orphan_paid: {
      meaning:
        'Found at the provider, of a submission that had adopted another one, was sent anew or was given up for lost. Booked, never applied.',
      next: 'Nobody.',
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
