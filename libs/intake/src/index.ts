export { assertSchemas } from './assert-schemas.ts';
export { BATCH_BYTES_MAX, MAX_STEPS_DEFAULT, type BatchRequest } from './request.ts';
export { requestedRuns } from './requested-runs.ts';
export { sentence } from './sentence.ts';
export { toResultFormat } from './to-result-format.ts';
export { toCap } from './to-runs.ts';
