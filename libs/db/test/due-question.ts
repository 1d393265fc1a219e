/** The settings of a look for due work, without kinds of rows. */
export const DUE_QUESTION = {
  provider_batch_states: [],
  batch_states: [],
  audit_interval_ms: 1,
  idempotency_key_days: 7,
  deleted_item_days: 7,
  event_days: 30,
  retention_days: 30,
  provider_batch_days: 30,
  upload_hours: 24,
  trial_hours: 25,
} as const;
