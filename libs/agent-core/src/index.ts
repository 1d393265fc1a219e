/*
 * The pure core: rows and `now` go in, decisions come out. No clock, no network, no database.
 *
 *   agent           a saved definition (system prompt, model, tools, tool rules, memory blocks, limits) with its history
 *   block           a labelled piece of an agent's memory; may be attached to several agents; every write is a revision
 *   batch           a submission of a user: runs, limits, callback
 *   run             one agent taken through one batch until it ends
 *   step            one model request of a run, its answer, and the tool calls it made
 *   tool call       one tool use of a step
 *   conversation    the ordered messages a run reads and extends: the agent's own, or an isolated one
 *   provider batch  one upstream message batch: many steps of many runs of many batches
 *   result line     one line of a provider's result file; names a step attempt in `custom_id`
 *   decision        the value the core returns: the rows to write, their expected state, the reason
 *   signal          "look at this row": a queue payload, kind and id only
 *   flow            the handler of one signal or tick; the only place in the worker where I/O and transactions meet
 *   schedule, tick  a cron rule with a time zone; one due moment of it
 */
export {
  clearLowBits,
  CONVERSATION_FREE_BITS,
  fromCustomId,
  messageKeyOf,
  messageUuid,
  RUN_FREE_BITS,
  stepKeyOf,
  stepUuid,
  toCustomId,
  toWireId,
  type StepKey,
  type WirePrefix,
} from './base/ids.ts';
export { ISSUES_MAX, listOf, recordOf } from './base/bounded.ts';
export { inPlainWords, NO_NUMBER } from './base/plain-words.ts';
export { ERROR_CATALOGUE, isError, NightshiftError, type ErrorCode, type FieldError } from './base/errors.ts';
export {
  fromStorable,
  isJsonObject,
  JSON_DEPTH_MAX,
  measureJson,
  pointerTo,
  toStorable,
  toStorableText,
  type Json,
  type JsonObject,
} from './base/json.ts';
export { findInexact } from './base/numbers.ts';
export { offsetReader, type OffsetReader } from './base/zone-offset.ts';
export {
  isContentBlock,
  toolResult,
  toolUsesOf,
  type ContentBlock,
  type ToolResultBlock,
  type ToolUseBlock,
} from './model/content.ts';
export {
  CARRIED_OUT,
  type SideEffects,
  type ToolChoice,
  type ToolDefinition,
  type ToolKind,
  type ToolOutcome,
  type McpSource,
  type ToolSource,
} from './model/tool.ts';
export {
  billingOf,
  SEARCHES_ASSUMED,
  searchesMax,
  SERVER_TOOLS_MAX,
  serverToolIssues,
  type ServerTool,
  type ServerToolCost,
} from './model/server-tool.ts';
export { BLOCK_CHAR_LIMIT_DEFAULT, type BlockView } from './model/block.ts';
export type { BlockChange, KeptPassage, WriteResolution } from './model/block-change.ts';
export {
  CALLBACK_EVENTS,
  EVENT_TYPES,
  fromEventId,
  toEventId,
  type CallbackEventName,
  type EventType,
} from './model/events.ts';
export type { PlannedCall } from './model/planned-call.ts';
export type { EndedCall, StepMemory } from './model/tool-call.ts';
export {
  hasTools,
  MAX_OUTPUT_TOKENS_DEFAULT,
  parseModelHandle,
  thinkingBudget,
  type Definition,
  type ModelSettings,
  type ResultFormat,
  type StrictParts,
} from './model/definition.ts';
export {
  SLIDING_WINDOW_DEFAULT,
  STATIC_BUFFER_DEFAULT,
  type CompactionPolicy,
} from './model/compaction-policy.ts';
export type { RefusalCause } from './model/refusal-cause.ts';
export { NO_USAGE, promptTokens, TOOL_PROMPT_TOKENS, type Usage } from './model/usage.ts';
export {
  batchCostNanoUsd,
  loadPriceTable,
  modelPrice,
  unknownModel,
  SHIPPED_PRICES,
  type ModelPrice,
  type PriceTable,
} from './model/prices.ts';
export { canTake, terminalStates, transition, type Machine, type StateDoc } from './machine/machine.ts';
export { BATCH_STATES, batchMachine, type BatchEvent, type BatchState } from './machine/batch.ts';
export {
  ENDED_RUN_STATES,
  isRunEnded,
  RUN_STATES,
  runMachine,
  STOP_REASONS,
  type RunEvent,
  type RunState,
  type StopReason,
} from './machine/run.ts';
export { STEP_STATES, stepMachine, type StepEvent, type StepState } from './machine/step.ts';
export {
  providerBatchMachine,
  type ProviderBatchEvent,
  type ProviderBatchState,
} from './machine/provider-batch.ts';
export {
  TOOL_CALL_STATES,
  toolCallMachine,
  type ToolCallEvent,
  type ToolCallState,
} from './machine/tool-call.ts';
export {
  billOfOutcome,
  needsTokens,
  withBill,
  type ErrorClass,
  type StepAnswer,
  type StepBill,
  type StepOutcome,
} from './decide/step-outcome.ts';
export {
  addEvidence,
  evidenceOfLine,
  judgeOutage,
  mayPass,
  NO_EVIDENCE,
  type OutageEvidence,
} from './decide/outage.ts';
export { errorTypeLabel, lastError, type LastError } from './decide/last-error.ts';
export {
  RETRY_POLICY_DEFAULT,
  type AppendedMessage,
  type Refusal,
  type RetryPolicy,
  type RunFacts,
  type RunMove,
  type StepDecision,
} from './decide/decision.ts';
export { callsToPlan, decideStep, isAwaited } from './decide/decide-step.ts';
export { isCancelling } from './decide/moves.ts';
export {
  decideCallerAnswer,
  type AwaitedCall,
  type CallerAnswer,
  type TakenAnswer,
} from './decide/caller-answer.ts';
export { toolPolicyOf, NO_TOOL_POLICY, type ToolPolicy, type ResultDemand } from './decide/tool-policy.ts';
export { checkResultSchema, FINISH_TOOL } from './tools/finish.ts';
export { STRICT_RULES, strictPartsOf } from './tools/strict-parts.ts';
export { planCalls } from './decide/plan-calls.ts';
export { NO_MEMORY, type StepCall } from './decide/step-calls.ts';
export { NO_TRAIL, ruleTrailOf, type Trail } from './decide/trail.ts';
export { isEmptyAnswer } from './decide/after-words.ts';
export { nextToolChoice } from './decide/next-tool-choice.ts';
export { decidePoisonedResults, decideResults, type ResultsDecision } from './decide/after-tools.ts';
export { decideNoBudget } from './decide/no-budget.ts';
export {
  decideAfterPoll,
  isMissingForGood,
  nextPollMs,
  POLL_POLICY_DEFAULT,
  type PollDecision,
  type PollPolicy,
  type RemoteFacts,
} from './decide/after-poll.ts';
export {
  LOOK_POLICY_DEFAULT,
  lookSpacingMs,
  nextLookMs,
  turnaroundWithin,
  type LookPolicy,
} from './decide/next-look.ts';
export {
  areTwins,
  decideAfterSearch,
  RECONCILE_POLICY_DEFAULT,
  type Candidate,
  type OpenSubmission,
  type ReconcilePolicy,
  type SearchDecision,
  type SearchedList,
  type UnknownSubmission,
} from './decide/after-search.ts';
export { CRASHES_MAX, linesAfterCrashes } from './decide/after-crashes.ts';
export {
  ACCOUNT_TROUBLE,
  decideAfterRefusal,
  PAUSE_REASONS,
  REFUSAL_POLICY_DEFAULT,
  RETRY_AFTER_MS_MAX,
  type CredentialRest,
  type RefusalDecision,
  type RefusalPolicy,
} from './decide/after-refusal.ts';
export { decideAfterCallback, type CallbackDecision, type CallbackOutcome } from './decide/after-callback.ts';
export { breakerRestMs, BREAKER_POLICY_DEFAULT, type BreakerPolicy } from './decide/breaker.ts';
export {
  CLOCK_ALARM_MS,
  judgeClockOffset,
  type ClockOffset,
  type ClockVerdict,
} from './decide/clock-offset.ts';
export { decideOrphans, type SettledDoubt, type Suspect } from './decide/after-hunt.ts';
export {
  decideAfterPilot,
  PILOT_FAILURE_RATE_DEFAULT,
  PILOT_RUNS_DEFAULT,
  PILOT_STATES,
  type AfterPilot,
  type PilotFacts,
  type PilotProjection,
  type PilotResult,
  type PilotRun,
  type PilotSettings,
  type PilotState,
} from './decide/after-pilot.ts';
export { decideFinish, type BatchFacts } from './decide/finish.ts';
export { pilotPlaces } from './decide/pilot-places.ts';
export { decideStop, STOP_AFTER_DEFAULT, type StopWhen } from './decide/after-failures.ts';
export {
  BATCH_REQUESTS_MAX,
  BODY_END,
  BODY_SEPARATOR,
  BODY_START,
  bodyBytesWith,
  encodeDefinition,
  encodeFrame,
  encodeRequest,
  EMPTY_BODY_BYTES,
  openingBytes,
  paramsInParts,
  requestInParts,
  utf8Length,
  type EncodedDefinition,
  type RequestParts,
} from './wire/anthropic/encode.ts';
export {
  billAtEnd,
  decodeLongLine,
  decodeResultLine,
  type DecodedAnswer,
  type DecodedBill,
  type DecodedLine,
} from './wire/anthropic/decode.ts';
export { salvageCustomId } from './wire/anthropic/salvage.ts';
export {
  classifyCreateFailure,
  classifyErroredLine,
  type CreateFailure,
  type CreateVerdict,
  type ErroredLineKind,
} from './wire/anthropic/classify.ts';
export { toAlerts, withAlerts } from './wire/anthropic/alerts.ts';
export { mayHoldBlankText, withoutBlankTexts } from './wire/anthropic/blank-texts.ts';
export { mayHoldThoughts, withoutThoughts } from './wire/anthropic/thoughts.ts';
export { compileMemory, type CompileOptions } from './memory/compile.ts';
export { compileMemoryMetadata, SHOWN_TAGS_MAX, type MemoryMetadata } from './memory/metadata.ts';
export { memoryNotice, type LineDiff, type ToldBlock, type UntoldChange } from './memory/notice.ts';
export { isMemoryTool, MEMORY_TOOLS, REWRITE_TOOLS } from './memory/definitions.ts';
export {
  checkHttpTool,
  HTTP_METHODS,
  isReservedHeader,
  secretNamesIn,
  type HttpTool,
} from './tools/http-tool.ts';
export {
  readHttpResult,
  renderHttpRequest,
  type HttpRequest,
  type HttpResult,
  type RenderedRequest,
} from './tools/http-request.ts';
export { diffDefinitions, type McpDefinition, type McpDifference } from './tools/mcp-definition.ts';
export { withoutSecrets } from './tools/without-secrets.ts';
export { capResult, cutNote, toolResultsMessage, type AnsweredCall } from './tools/results.ts';
export { checkInputSchema, createArgumentValidator, type ArgumentValidator } from './tools/validate.ts';
export {
  toInternalMessage,
  type InternalContentPart,
  type InternalMessage,
} from './wire/letta/internal-message.ts';
export type { ReturnedCall, ReturnedCalls, StoredMessage } from './wire/letta/stored-message.ts';
export { toLettaMessages, type LettaMessage, type UnionOptions } from './wire/letta/union-message.ts';
export { modelTraits, type ModelTraits } from './model/traits.ts';
export { apportionTokens, PROMPT_PARTS, type PartTokens, type PromptPart } from './context/prompt-parts.ts';
export { fromMarkByte, NO_MARKS, toMarkByte, type CacheMarks } from './model/cache-marks.ts';
export {
  cacheFactors,
  decideCacheMarks,
  expectedHitRate,
  expectedRequests,
  type CacheFacts,
} from './money/cache-marks.ts';
export { parseToolRules, toolRuleSchema, type ParsedRules, type ToolRule } from './rules/rule.ts';
export { checkRulesFit } from './decide/check-rules.ts';
export { checkServerTools } from './decide/check-server-tools.ts';
export { checkRequiredTools } from './rules/reach.ts';
export { toolUsageRules } from './rules/prompts.ts';
export {
  editedBlocks,
  memoryNeeds,
  memoryOfStep,
  type MemoryPolicy,
  openBlocks,
  recallTexts,
  type EditedBlock,
  type OwnText,
} from './memory/chunk-memory.ts';
export type { UsedLabel } from './memory/labels-in-use.ts';
export type {
  RememberingRun,
  RunWithCalls,
  ShownBlock,
  StoredBlock,
  StoredDraft,
} from './memory/open-blocks.ts';
export {
  answerStoreCalls,
  readStoreCalls,
  storeCallsOf,
  type MessageSearch,
  type PassageSearch,
  type StoreAnswers,
} from './memory/store-answers.ts';
export {
  CONFLICT_POLICIES,
  CONFLICT_POLICY_DEFAULT,
  type BlockWriter,
  type ConflictPolicy,
} from './memory/conflict.ts';
export { mergeThreeWay, type Diff3, type Merged } from './memory/merge.ts';
export {
  describeChange,
  SHRINK_POLICY_DEFAULT,
  type ComparedRevisions,
  type CreatePatch,
  type MemoryChange,
  type ShrinkPolicy,
} from './memory/change.ts';
export {
  planAccept,
  refuseClashes,
  type HeldFacts,
  type LabelChange,
  type LabelInUse,
  type StaleReason,
} from './memory/accept.ts';
export { agentsToHold, type HoldRule, type MeasuredChange } from './memory/hold-rule.ts';
export { decideRevert, type RevertDecision, type RevertFacts } from './memory/revert.ts';
export type {
  ArchivalHit,
  ArchivalSearch,
  ConversationHit,
  ConversationSearch,
} from './memory/store-calls.ts';
export { isStoreCall, STORE_TOOLS } from './memory/store-tools.ts';
export {
  calibrate,
  sampledBytesPerToken,
  estimateContentTokens,
  sizeBeyondWindow,
  estimateTokens,
  IMAGE_TOKENS,
  TOKEN_CALIBRATION_DEFAULT,
  type TokenCalibration,
} from './context/tokens.ts';
export {
  fitRequest,
  isTight,
  type ContextLimits,
  type FitVerdict,
  type RequestFacts,
  type RequestSize,
} from './context/fit.ts';
export { stepsMax } from './decide/steps-max.ts';
export { type CompactionPlan } from './context/compaction.ts';
export {
  summaryExtra,
  summaryLimits,
  summaryMaxTokens,
  summaryMessage,
  summaryRequest,
  tokensToReserve,
  type SummaryLimits,
  type SummaryRequest,
} from './context/summary.ts';
export {
  countMedia,
  mediaOf,
  inputTokensToReserve,
  nanoUsdOf,
  NO_MEDIA,
  PROMPT_SAMPLES_MIN,
  reliableBytesPerToken,
  reserveNanoUsd,
  UNKNOWN_MEDIA,
  windowMax,
  worstInputTokens,
  type DenseRequest,
  type MeasuredRequest,
  type MediaCount,
  type PromptDensity,
} from './money/reserve.ts';
export {
  admitRuns,
  noRoomReason,
  NO_AMOUNT,
  reserveAmount,
  type Account,
  type Admission,
  type Amount,
  type AskingRun,
  type Cap,
} from './money/budget.ts';
export { answerLimit } from './money/answer-limit.ts';
export {
  ENDS_BEFORE_ETA,
  PHASES,
  progressOf,
  RATE_WINDOW_MINUTES,
  WAITING_CAUSES,
  type Phase,
  type Progress,
  type ProgressFacts,
  type WaitingCause,
  type WaitingReason,
} from './progress/progress.ts';
export {
  deriveTimeline,
  INTERVAL_KINDS,
  type IntervalKind,
  type RunInterval,
  type TimedCall,
  type TimedRun,
  type TimedStep,
} from './progress/run-timeline.ts';
export { projectTotal, type ProjectedRange } from './money/projection.ts';
export { toUsd } from './money/to-usd.ts';
export {
  applicableWork,
  continuationProbability,
  definitionKey,
  outputPercentile,
  sumWorkSamples,
  toWorkStatistics,
  WORK_COUNTS,
  workClassKey,
  type ApplicableWork,
  type WorkCounts,
  type WorkSample,
  type WorkStatistics,
  type WorkSum,
} from './money/work-statistics.ts';
export {
  estimateBatch,
  workKindOf,
  type BatchEstimate,
  type Range,
  type RunGroup,
  type WorkKind,
} from './money/estimate.ts';
