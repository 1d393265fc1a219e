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
export { acceptPortion } from './fleet/accept-portion.ts';
export type { PortionReport } from './portion-report.ts';
export { assertMatch, checkFleet, toSelection } from './fleet/store-fleet.ts';
export { readFleetPlans } from './fleet/read-fleet-plans.ts';
export {
  prepareBatch,
  type PreparedBatch,
  type PreparedFleet,
  type PreparedLines,
  type PreparedRuns,
} from './prepare-batch.ts';
export {
  BATCH_BYTES_MAX,
  MAX_STEPS_DEFAULT,
  type BatchOptions,
  type BatchRequest,
  type TemplateRequest,
} from './request.ts';
export {
  linePath,
  openLinePlan,
  type LineErrors,
  type LineFacts,
  type LinePlan,
  type UploadHead,
  type UploadLine,
} from './upload/line-plan.ts';
export { refuseLowLineCap } from './upload/refuse-low-line-cap.ts';
export { requestedRuns } from './requested-runs.ts';
export {
  PARTS_MAX_DEFAULT,
  planRewrite,
  REWRITE_CURSOR_DEFAULT,
  type RewriteFacts,
  type RewriteReading,
} from './rewrite/plan-rewrite.ts';
export { REWRITE_PROMPT } from './rewrite/prompt.ts';
export {
  keepSecretsKey,
  NO_SECRETS_KEYS,
  readSecretsKeys,
  SECRETS_KEY_FORM,
  SECRETS_KEY_RULE,
  SECRETS_KEYS_FORM,
  SECRETS_KEYS_RULE,
  type SecretsKey,
  type SecretsKeys,
} from './secrets/keys.ts';
export { rotateSecrets, type RotateOptions } from './secrets/rotate.ts';
export { openSecrets, sealSecret, type OpenSecrets, type SecretPlace } from './secrets/seal.ts';
export { sentence } from './sentence.ts';
export { signalsOfStored, storeBatch, type StoredBatch } from './store-batch.ts';
export type { RetryRequest } from './retry/request.ts';
export { storeRetry } from './retry/store-retry.ts';
export {
  checkSource,
  SOURCE_BYTES_MAX,
  type CheckedSource,
  type UploadedSource,
} from './tools/check-source.ts';
export { toResultFormat } from './to-result-format.ts';
export { toCap, toMessages, toToolChoice } from './to-runs.ts';
export { afterTick, insteadOfStart, planVisit, waiting, withJitter } from './schedule/plan-visit.ts';
export { storeTickBatch, type TickSettings } from './schedule/store-tick-batch.ts';
export {
  assertRule,
  describeRule,
  monthOf,
  nextTick,
  nextTicks,
  ticksUntil,
  type ScheduleRule,
} from './schedule/rule.ts';
export { expectCosts, isCapped, refuseCannotStart, refuseLowCap } from './estimate/expect-cost.ts';
export { measureRuns, type Measuring } from './estimate/measure-runs.ts';
export {
  createDefinitionCache,
  type CachedDefinition,
  type DefinitionCache,
} from './requests/definition-cache.ts';
export { openEncoder, type MarksOf, type RequestText } from './requests/open-encoder.ts';
export { readRequests } from './requests/read-requests.ts';
export { INEXACT_REASONS, rebuildRequest, type RebuiltRequest } from './requests/rebuild-request.ts';
