export { acceptBatch, type IntakeBatch } from './accept-batch.ts';
export { assertSchemas } from './assert-schemas.ts';
export {
  planBatch,
  refusePassedDeadlines,
  refuseUnfit,
  refuseUnknownAgents,
  refuseUnpriced,
  toError,
  type BatchFacts,
  type BatchPlan,
  type PlannableBatch,
  type Refusal,
} from './plan-batch.ts';
export { prepareBatch, type BatchSource, type PreparedBatch } from './prepare-batch.ts';
export { BATCH_BYTES_MAX, MAX_STEPS_DEFAULT, type BatchRequest } from './request.ts';
export { requestedRuns } from './requested-runs.ts';
export { sentence } from './sentence.ts';
export { storeBatch, type StoreSettings, type StoredBatch } from './store-batch.ts';
export { toResultFormat } from './to-result-format.ts';
export { toCap } from './to-runs.ts';
export {
  afterTick,
  insteadOfStart,
  planVisit,
  TICKS_PER_VISIT,
  withJitter,
  type NextRun,
} from './schedule/plan-visit.ts';
export { readLeft } from './schedule/read-left.ts';
export {
  assertRule,
  describeRule,
  monthOf,
  nextTick,
  nextTicks,
  ticksUntil,
  type ScheduleRule,
} from './schedule/rule.ts';
