import type { BatchState, ProviderBatchState } from '@nightshift/agent-core';
import { readDueWork } from '@nightshift/db';
import type { FlowDeps } from '../flow-parts/deps.ts';
import { PROVIDER_BATCH_DAYS } from './forget-batches/forget-batches.ts';
import {
  DELETED_ITEM_DAYS,
  EVENT_DAYS,
  IDEMPOTENCY_KEY_DAYS,
  TRIAL_HOURS,
  UPLOAD_HOURS,
} from './sweep/sweep.ts';

/** Flows that look for due rows. */
export type DueFlow =
  | 'accept'
  | 'compose'
  | 'submit'
  | 'reconcile'
  | 'poll'
  | 'ingest'
  | 'tools'
  | 'trial'
  | 'finish'
  | 'cancel'
  | 'webhook'
  | 'sweep'
  | 'audit'
  | 'forget'
  | 'fire';

/** Flows by the state of a due provider batch; null for final states. */
const OF_PROVIDER_BATCHES = {
  building: 'submit',
  submitting: 'reconcile',
  unknown: 'reconcile',
  submitted: 'poll',
  cancelling: 'poll',
  ended: 'ingest',
} as const satisfies Record<Exclude<ProviderBatchState, 'ingested' | 'rejected' | 'orphan_paid'>, DueFlow>;

/** Flows by the state of a due batch: an ended batch waits for its callback. */
const OF_BATCHES = {
  receiving: 'accept',
  running: 'finish',
  paused: 'finish',
  cancelling: 'cancel',
  completed: 'webhook',
  failed: 'webhook',
  cancelled: 'webhook',
} as const satisfies Record<BatchState, DueFlow>;

/** Runs past their deadline that one look checks: most of them may be at the provider, for a day. */
const LATE_RUNS_MAX = 1_000;
/** One look in this many checks all of them. */
const ALL_LATE_EVERY = 10;

/** Returns the flows with due work, by one statement. An idle database gets one query per look, not one per flow. */
export async function findDueFlows({
  db,
  settings,
}: Pick<FlowDeps, 'db' | 'settings'>): Promise<ReadonlySet<DueFlow>> {
  const due = await readDueWork(db, {
    provider_batch_states: Object.keys(OF_PROVIDER_BATCHES) as (keyof typeof OF_PROVIDER_BATCHES)[],
    batch_states: Object.keys(OF_BATCHES) as (keyof typeof OF_BATCHES)[],
    audit_interval_ms: settings.audit_interval_ms,
    idempotency_key_days: IDEMPOTENCY_KEY_DAYS,
    deleted_item_days: DELETED_ITEM_DAYS,
    event_days: EVENT_DAYS,
    retention_days: settings.retention_days,
    provider_batch_days: PROVIDER_BATCH_DAYS,
    upload_hours: UPLOAD_HOURS,
    trial_hours: TRIAL_HOURS,
    late_runs_max: Math.random() * ALL_LATE_EVERY < 1 ? null : LATE_RUNS_MAX,
  });
  const flows = new Set<DueFlow>();
  for (const state of due.provider_batch_states) flows.add(OF_PROVIDER_BATCHES[state]);
  for (const state of due.batch_states) flows.add(OF_BATCHES[state]);
  if (due.callback_events) flows.add('webhook');
  if (due.ready_runs) flows.add('compose');
  if (due.open_calls) flows.add('tools');
  if (due.trials) flows.add('trial');
  if (due.sweep) flows.add('sweep');
  if (due.audit) flows.add('audit');
  if (due.forget) flows.add('forget');
  if (due.schedules) flows.add('fire');
  return flows;
}
