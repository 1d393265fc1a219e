export {
  connect,
  DEFAULT_PROJECT_ID,
  inTransaction,
  inUndoneTransaction,
  newConversationId,
  newId,
  newRunId,
  readNow,
  readWithin,
  takesWrites,
  type Database,
  type Tx,
} from './connect.ts';
export { assertUsable, explained } from './assert-usable.ts';
export { assertGranted } from './grants.ts';
export type { DB, LeasedTable } from './tables.ts';
export { assertMigrated, migrateToLatest, MIGRATIONS, readMigrations } from './migrations/migrate.ts';

// Reads for the checks of an installation.
export {
  readDatabaseState,
  readGrowth,
  readSlowStatements,
  type DatabaseState,
  type SlowStatement,
} from './reads/check/database-state.ts';
export { readModelsInUse } from './reads/check/models-in-use.ts';
export { readOldestDue, type DueKind, type OldestDue } from './reads/check/oldest-due.ts';
export { readProviderKeys, type ProviderKey } from './reads/check/provider-keys.ts';
export {
  countSelectedAgents,
  readLastCosts,
  readUpcomingSchedules,
  type LastCosts,
  type UpcomingSchedule,
} from './reads/check/upcoming-schedules.ts';
export { readWorker, readWorkers, WORKER_ALIVE_SECONDS, type WorkerRow } from './reads/check/workers.ts';

// Writes and reads of the API.
export { commitBatch, placeRuns, type AcceptedBatch, type PlacedRuns } from './commits/batch/commit-batch.ts';
export { receiveBatch, type ReceivedBatch } from './commits/batch/receive-batch.ts';
export {
  commitAccepted,
  commitPortion,
  lockReceivingBatch,
  readNextBatchAgents,
  type PortionOutcome,
  type ReceivingBatch,
} from './commits/batch/accept-portion.ts';
export {
  insertSkippedLines,
  receiveLines,
  type BatchOfLines,
  type SkippedLine,
} from './commits/batch/receive-lines.ts';
export { endSession } from './commits/session/end-session.ts';
export { startSession, type NewSession } from './commits/session/start-session.ts';
export { readBrowserSession } from './reads/session/browser-session.ts';
export { deleteStagedLines, dropOldUploads, dropUpload } from './commits/upload/delete-staged-lines.ts';
export { claimToolTrial, type ClaimedToolTrial } from './claims/trial/claim-tool-trial.ts';
export {
  commitToolTrial,
  endTrialWait,
  forgetToolTrials,
  setTrialWait,
  storeToolTrial,
  type NewToolTrial,
} from './commits/trial/tool-trials.ts';
export { readToolTrial, type ToolTrialReply, type ToolTrialRow } from './reads/trial/tool-trial.ts';
export { openUpload } from './commits/upload/open-upload.ts';
export { encodeLines, stageLines, type StagedLine, type UploadKey } from './commits/upload/stage-lines.ts';
export { takeStagedLines } from './commits/upload/take-staged-lines.ts';
export { readDuplicateLines, type DuplicateLine } from './reads/upload/duplicate-lines.ts';
export { readStagedLines, type LineLimits, type StagedLineRow } from './reads/upload/staged-lines.ts';
export { listSkippedAgents, type SkippedAgent } from './reads/batch/skipped-agents.ts';
export {
  readFleetAgents,
  type EndedRun,
  type FleetAgent,
  type FleetBlock,
  type FleetFacts,
} from './reads/catalog/fleet-agents.ts';
export { readKnownAgents, readSelectedAgents, type SelectedAgents } from './reads/catalog/selected-agents.ts';
export type { InputMessage, NewBatch, NewRun } from './commits/batch/new-batch.ts';
export { distinctDefinitions, requestedDefinitions } from './commits/batch/requested-definitions.ts';
export { attachBlock, detachBlock } from './commits/memory/attach-block.ts';
export { attachTool, detachTool } from './commits/catalog/attach-tool.ts';
export { changeAgent, type AgentChange } from './commits/catalog/change-agent.ts';
export { changeTool, deleteTool, type ToolChange } from './commits/catalog/change-tool.ts';
export { grantCalls, type CallDemand, type CallGrant } from './commits/catalog/grant-calls.ts';
export { limitTool, type ToolLimits } from './commits/catalog/limit-tool.ts';
export { storeTool, type NewTool } from './commits/catalog/store-tool.ts';
export {
  changeMcpServer,
  createMcpServer,
  registerMcpProgram,
  storeMcpOffer,
  type McpServerConfig,
  type StoredOffer,
} from './commits/catalog/put-mcp-server.ts';
export { approveMcpTools, deleteMcpServer, type McpApproval } from './commits/catalog/approve-mcp-tools.ts';
export {
  findMcpServer,
  listMcpServers,
  readMcpServer,
  readMcpTools,
  type McpServerRow,
  type McpToolRow,
} from './reads/catalog/mcp-servers.ts';
export { createAgents, type NewAgent } from './commits/catalog/create-agents.ts';
export { deleteAgentSecrets, deleteSecret } from './commits/catalog/delete-secrets.ts';
export { putSecrets, resealSecrets } from './commits/catalog/put-secrets.ts';
export { lockSecretsToRotate } from './locks/catalog/lock-secrets.ts';
export { lockTools } from './locks/catalog/lock-tools.ts';
export {
  listSecrets,
  readSecretKeyIds,
  readKnownSecretNames,
  readSecretsFor,
  type SealedSecret,
  type SecretRow,
} from './reads/catalog/secrets.ts';
export { createBlocks, type NewBlock } from './commits/memory/create-blocks.ts';
export { commitBlocksReleased, deleteAgent } from './commits/catalog/delete-agent.ts';
export { deleteBlock } from './commits/memory/delete-block.ts';
export {
  registerMemoryTools,
  registerModuleTools,
  type ModuleTool,
} from './commits/catalog/register-tools.ts';
export {
  appendMessages,
  type AppendItem,
  type AppendReport,
  type NewAppendedMessage,
} from './commits/catalog/append-messages.ts';
export { resetMessages } from './commits/catalog/reset-messages.ts';
export { commitOverdueRuns, type OverdueReport } from './commits/run/deadlines.ts';
export { commitCallerAnswers, type NewCallerAnswer } from './commits/run/caller-answers.ts';
export {
  readAwaitedCalls,
  readAwaitingRuns,
  type AwaitedCallRow,
  type AwaitingRun,
} from './reads/run/awaited-calls.ts';
export { pauseBatch, pauseBatches, resumeBatch } from './commits/batch/pause-batch.ts';
export { commitPilotEnd } from './commits/batch/pilot.ts';
export { readPilotFacts } from './reads/batch/pilot-facts.ts';
export { changeCaps, type CapChange } from './commits/batch/change-caps.ts';
export {
  forgetBatch,
  forgetExpiredBatches,
  removeEmptyProviderBatches,
} from './commits/batch/forget-batch.ts';
export { removePortion, type RemovedPortion } from './commits/batch/remove-portion.ts';
export { requestBatchCancel } from './commits/batch/request-batch-cancel.ts';
export {
  revertBatch,
  type RevertedBlock,
  type RevertRefusal,
  type RevertReport,
} from './commits/memory/revert-batch.ts';
export { acceptByRule, type AcceptedPortion } from './commits/memory/accept-by-rule.ts';
export {
  acceptHeldChanges,
  planHeldAccept,
  rejectHeldChanges,
  type AcceptReport,
  type StaleChange,
} from './commits/memory/settle-held-changes.ts';
export { editHeldChange, type HeldEdit } from './commits/memory/edit-held-change.ts';
export type { HeldFilter, HeldSelection } from './commits/memory/held-row.ts';
export type { OnConflict } from './commits/memory/resolve-stale.ts';
export { insertCursorSpans, type NewCursorSpan } from './commits/cursor/insert-cursor-spans.ts';
export { rewindCursor, type RewindTarget } from './commits/cursor/rewind-cursor.ts';
export { relabelBlock, writeBlock, type BlockContent } from './commits/memory/write-block.ts';
export { createEmptyBlocks } from './commits/memory/create-empty-blocks.ts';
export { lockAgent, lockAgents, shareLockAgents } from './locks/catalog/lock-agent.ts';
export { lockConversations, lockConversationsOfAgents } from './locks/run/lock-conversations.ts';
export { lockIdempotencyKey } from './locks/batch/lock-idempotency-key.ts';
export {
  listAgents,
  listTags,
  MESSAGE_IDS_MAX,
  readAgent,
  type AgentFilter,
  type AgentRelations,
  type AgentRow,
} from './reads/catalog/agents.ts';
export {
  changeSchedule,
  commitSchedulePaused,
  commitScheduleResumed,
  createSchedule,
  deleteSchedule,
  type ScheduleSettings,
  type ScheduleTiming,
} from './commits/schedule/change-schedule.ts';
export {
  commitScheduleDelayed,
  commitVisit,
  writeTick,
  type ScheduleVisit,
  type TickDecision,
} from './commits/schedule/commit-visit.ts';
export { lockDueSchedule, lockSchedule } from './locks/schedule/lock-schedule.ts';
export {
  readScheduleFacts,
  readScheduleSpending,
  type ScheduleFacts,
  type Spending,
} from './reads/schedule/schedule-facts.ts';
export {
  findSchedule,
  listSchedules,
  listTicks,
  readDueScheduleIds,
  readLastTickDueAt,
  readLastTicks,
  readMsToNextSchedule,
  readSchedule,
  type ScheduleRow,
  type TickRow,
} from './reads/schedule/schedules.ts';
export {
  readLastDays,
  readUsage,
  type UsageDays,
  type UsageGrouping,
  type UsageRow,
} from './reads/usage/read-usage.ts';
export { listBatches, readBatch, readBatchModels, type BatchRow } from './reads/batch/batches.ts';
export { readEndedRuns, TALLY_SLOTS, type EndedRunsRow } from './reads/batch/ended-runs.ts';
export {
  readResultsInOrder,
  readResultsOfRuns,
  type ResultFilter,
  type ResultRow,
} from './reads/batch/results.ts';
export { readRetryChain, type RetryBatch } from './reads/batch/retry-chain.ts';
export {
  listFailures,
  readFailureGroups,
  type FailureGroup,
  type FailureGroups,
  type FailureRow,
} from './reads/batch/failures.ts';
export {
  readAgentFormats,
  readFrozenDefinitions,
  readRunsToRetry,
  type AgentFormat,
  type FrozenDefinition,
  type RunToRetry,
} from './reads/batch/retry-runs.ts';
export { lockRetriedBatch, type RetriedBatch } from './locks/batch/lock-retried-batch.ts';
export { noteRetriedRuns, receiveRetry, type RetryChoice } from './commits/batch/receive-retry.ts';
export { renameBatch, type NameChange } from './commits/batch/batch-labels.ts';
export { requestRunCancels, type CancelChoice } from './commits/run/cancel-runs.ts';
export {
  listAgentBlocks,
  listBlocks,
  readAgentBlock,
  readBlock,
  readBlocks,
  readBlocksOfAgents,
  type AgentBlockRow,
  type BlockFilter,
  type BlockRow,
} from './reads/memory/blocks.ts';
export {
  findWritesOfRuns,
  listBlockRevisions,
  listMemoryChanges,
  readBlockRevisions,
  readMemoryChanges,
  type BlockRevisionRow,
  type MemoryChangeFilter,
  type MemoryChangeRow,
  type NumberPage,
  type RevisionKey,
  type RunWrite,
} from './reads/memory/block-revisions.ts';
export {
  countNewMessages,
  readCursors,
  type CursorCount,
  type CursorPlace,
  type CursorReading,
  type CursorReadings,
  type CursorSkip,
  type ReadingBounds,
} from './reads/cursor/read-cursors.ts';
export { listCursors, type CursorRow } from './reads/cursor/list-cursors.ts';
export type { NewMessage } from './reads/cursor/new-messages.ts';
export { PAGE_BYTES_MAX, type Listed } from './reads/cut-page.ts';
export {
  listHeldChanges,
  readHeldChange,
  type HeldChangeRow,
  type HeldCursor,
  type HeldPage,
} from './reads/memory/held-changes.ts';
export {
  EVERY_CHANGE,
  type HeldChangeFilter,
  type HeldChoice,
  type StandingReason,
} from './reads/memory/held-conditions.ts';
export { summarizeHeldChanges, type HeldSummary } from './reads/memory/held-summary.ts';
export {
  readConversationSizes,
  readLastRuns,
  type ConversationSize,
  type LastRun,
} from './reads/run/run-facts.ts';
export {
  readAgentDefinitions,
  readRunAgents,
  type RunAgent,
  type AgentDefinition,
  type RequestedDefinition,
} from './reads/catalog/agent-definitions.ts';
export {
  findBatchOfRetry,
  findIdempotentRequest,
  type IdempotentRequest,
} from './reads/batch/idempotency-keys.ts';
export { refuseCursor, type Page } from './reads/keyset.ts';
export {
  listBatchMessages,
  listConversationMessages,
  readContextSeqs,
  readContextSeqsOf,
  readReturnedCalls,
  readMessagesOfRuns,
  type BatchMessageRow,
  type ContextSeqs,
  type MessageRange,
  type MessageRow,
} from './reads/run/messages.ts';
export {
  listRuns,
  readRun,
  readRunUsages,
  type RunFilter,
  type RunRow,
  type Usage,
} from './reads/run/runs.ts';
export { readOwnTexts, readShownBlocks } from './reads/memory/shown-blocks.ts';
export { listSteps, readStep, type StepFilter, type StepRow } from './reads/run/steps.ts';
export {
  findTools,
  readKnownTools,
  listAgentTools,
  listTools,
  readMissingModuleTools,
  readTool,
  readToolsOfAgents,
  type AgentToolRow,
  type ToolFilter,
  type ToolRow,
} from './reads/catalog/tools.ts';
export { readLimitedTools, type LimitedTool } from './reads/catalog/limited-tools.ts';
export { readToolCode } from './reads/catalog/tool-code.ts';

// Claims, locks, commits and reads of the worker.
export { readTimedRun, type StoredTimes } from './reads/run/timed-run.ts';
export { listToolCalls, type CallPage, type CallPlace, type RunToolCallRow } from './reads/run/tool-calls.ts';
export { readLeaseCounts, type LeaseCounts } from './reads/worker/lease-counts.ts';
export { requestDrain } from './commits/worker/request-drain.ts';
export { commitHeartbeat, removeWorker, type WorkerSelf } from './commits/worker/heartbeat.ts';
export {
  holdLease,
  releaseAllLeases,
  releaseLease,
  releaseLeases,
  renewLeases,
  type Claimant,
  type Lease,
} from './claims/lease.ts';
export { claimForgottenBatch, type ClaimedForgottenBatch } from './claims/batch/claim-forgotten-batch.ts';
export { claimDueBatches, type ClaimedBatch } from './claims/batch/claim-batches.ts';
export {
  claimCredential,
  releaseCredential,
  type ClaimedCredential,
  type CredentialVerdict,
} from './claims/provider-batch/claim-credential.ts';
export {
  haltCredential,
  pauseCredential,
  resumeCredential,
} from './commits/provider-batch/pause-credential.ts';
export { declareAnswerer } from './commits/provider-batch/declare-answerer.ts';
export { commitOrphan } from './commits/provider-batch/orphans.ts';
export { commitProven, type ProvenBatch, type ProvenOutcome } from './commits/provider-batch/proven.ts';
export { chargeLooks } from './commits/provider-batch/charge-looks.ts';
export { commitClockOffset } from './commits/provider-batch/provider-clock.ts';
export { commitOutages, commitOutagesOver, type CredentialModels } from './commits/provider-batch/outages.ts';
export { readFailureCounts, readOutages, type FailureCounts } from './reads/provider-batch/outages.ts';
export { readProviderClocks, type MeasuredClock } from './reads/provider-batch/provider-clocks.ts';
export {
  readWatchedSubmissions,
  type WatchedSubmission,
} from './reads/provider-batch/watched-submissions.ts';
export {
  claimDuePolls,
  claimDueProviderBatches,
  claimDueSend,
  claimLooks,
  claimProviderBatch,
  resetCrashCount,
  noteSuspect,
  noteTried,
  type ClaimedPolls,
  type ClaimedProviderBatch,
  type ClaimedSend,
  type LookClaim,
} from './claims/provider-batch/claim-provider-batches.ts';
export { claimToolsChunk, type ClaimedRunChunk } from './claims/run/claim-run-chunk.ts';
export { readTimeZones, searchMessages, searchPassages } from './reads/memory/store-searches.ts';
export { readBlockLabels } from './reads/memory/block-labels.ts';
export { readHeldDrafts } from './reads/memory/held-blocks.ts';
export { assertLabelFree, readLabelsBeside } from './reads/memory/labels-beside.ts';
export { lockBlock, lockBlocksOfAgents } from './locks/memory/lock-blocks.ts';
export { lockRuns } from './locks/run/lock-runs.ts';
export { lockSendable } from './locks/provider-batch/lock-sendable.ts';
export { lockPauseMs, lockUsable } from './locks/provider-batch/lock-pause.ts';
export { readBatchStates, readRunsToDecide, type RunToDecide } from './reads/run/runs-to-decide.ts';
export { sealReadyRuns, type Sealed } from './commits/run/seal-ready-runs.ts';
export { type OutputMaxima } from './reads/run/output-max.ts';
export { commitReservations, type ReservationVerdict } from './commits/batch/reservations.ts';
export { queueFreedRuns } from './commits/run/queue-again.ts';
export { lockBudgets, type LockedBudget } from './locks/batch/lock-budgets.ts';
export { readAskingRuns, type AskingRow } from './reads/run/asking-runs.ts';
export {
  commitAdopted,
  commitDisproved,
  commitPutOff,
  commitRefused,
  commitLost,
  commitRejected,
  commitSearchedAgain,
  commitSplit,
  commitSubmitted,
  commitUnknown,
  commitUnsealed,
  commitWithdrawn,
  commitWriteAhead,
} from './commits/provider-batch/submission.ts';
export {
  commitCancelRequested,
  commitIngested,
  commitPolled,
  commitStreamAgain,
  type PolledBatch,
} from './commits/provider-batch/progress.ts';
export { markGathered } from './commits/run/mark-gathered.ts';
export {
  commitCallsBegun,
  commitDecisions,
  commitRunsEnded,
  commitToolResults,
  NOTHING_COMMITTED,
  type CommitReport,
  type ToolResultsOfRun,
} from './commits/run/decisions.ts';
export type { DecidedRun } from './commits/run/decided-rows.ts';
export {
  commitParkedRunsReleased,
  commitRunsCancelled,
  readProviderBatchesOf,
} from './commits/batch/cancel.ts';
export { storeIdempotencyKey, type MadeOnce } from './commits/catalog/store-idempotency-key.ts';
export { commitUnsentDue } from './commits/provider-batch/unsent-due.ts';
export { commitUsagePortion, RUNS_BOOKED_MAX } from './commits/batch/book-usage.ts';
export {
  commitBatchFinish,
  lockForFinish,
  markFinishedBatches,
  type FinishFacts,
} from './commits/batch/finish.ts';
export {
  commitWaitingRunsStarted,
  deleteOldIdempotencyKeys,
  forgetDeletedItems,
  markIdleBatches,
  type WaitingReport,
} from './commits/run/sweep.ts';
export { commitQuarantinedLines, type QuarantinedLine } from './commits/provider-batch/quarantine.ts';
export { readActingRuns, type ActingRun } from './reads/run/acting-runs.ts';
export {
  readPastCalls,
  readPastRequest,
  readPastStalePrefix,
  readPastSubmission,
  readUnshownSeqs,
  type PastSubmission,
} from './reads/run/past-request.ts';
export {
  readBlocksAt,
  readRequestBytes,
  readSealedRequests,
  readShownSeqs,
  type SealedRequest,
} from './reads/run/sealed-requests.ts';
export { readStalePrefixes } from './reads/run/stale-prefixes.ts';
export {
  readRunsWithChanges,
  readUntoldChanges,
  type UntoldChangeOfRun,
} from './reads/memory/untold-changes.ts';
export { commitNotices, commitUntold, type Notice } from './commits/memory/notices.ts';
export { readCachedTokens, readCacheUse, type CacheUse } from './reads/provider-batch/cache-use.ts';
export { readPromptDensities } from './reads/provider-batch/prompt-densities.ts';
export { readTokenCalibrations } from './reads/provider-batch/token-calibrations.ts';
export { readTurnarounds } from './reads/provider-batch/turnarounds.ts';
export {
  readBlockSizes,
  readStoredRuns,
  readUnestimatedBatches,
  type SizedBlock,
  type StoredRun,
  type StoredSample,
} from './reads/batch/stored-runs.ts';
export { commitExpectedCost } from './commits/batch/expected-cost.ts';
export { readLimitedSteps } from './reads/run/limited-steps.ts';
export { commitWorkSamples, forgetWorkStatistics } from './commits/run/work-statistics.ts';
export { readWorkStatistics } from './reads/run/work-statistics.ts';
export type { TokenSample } from './commits/provider-batch/token-calibrations.ts';
export { commitStepsFitted, type FittedStep } from './commits/run/fit-steps.ts';
export { readDefinitions } from './reads/run/definitions.ts';
export { readUnsendableSteps } from './reads/provider-batch/unsendable-steps.ts';
export { readKnownProviderIds } from './reads/provider-batch/known-provider-ids.ts';
export { readOpenDoubts, type OpenDoubt } from './reads/provider-batch/open-doubts.ts';
export { readOpenSteps } from './reads/provider-batch/open-steps.ts';
export { readPutAsideBills } from './reads/provider-batch/put-aside-bills.ts';
export { readStepsAtLimit } from './reads/run/steps-at-limit.ts';
export { readDueWork, type DueWork, type DueWorkQuestion } from './reads/due-work.ts';
export { readReadyBacklog, type ReadyBacklog } from './reads/batch/ready-backlog.ts';
export {
  readBatchProgress,
  readBatchWithProgress,
  readProgress,
  type BatchProgress,
  type WatchedBatch,
} from './reads/batch/progress.ts';
export {
  BUCKET_MINUTES,
  readTimeline,
  readTimelineMinutes,
  type Bucket,
  type TimelineBucket,
} from './reads/batch/timeline.ts';
export {
  isEventPlaceKnown,
  readEvents,
  readLastEventPlace,
  type EventPlace,
  type EventRow,
} from './reads/event/events.ts';
export { claimCallbackEvent, type ClaimedCallbackEvent } from './claims/event/claim-callback-event.ts';
export { commitCallbackEvent } from './commits/event/callback-event.ts';
export { forgetEvents } from './commits/event/forget-events.ts';
export { commitCallback, type CallbackDelivery } from './commits/batch/callback.ts';
export { readEndedBatch, type EndedBatch } from './reads/batch/ended-batch.ts';
export {
  auditIn,
  auditInvariants,
  invariants,
  type AuditOptions,
  type Violation,
} from './audit/audit-invariants.ts';
export type { AuditScope, Slice } from './audit/scope.ts';
export type { Invariant } from './audit/invariant.ts';
export {
  claimAudit,
  commitAudit,
  MONEY_INVARIANTS,
  readAuditScope,
  readLastAudit,
  type AuditReport,
} from './audit/audit-reports.ts';
export {
  PAUSE_CAUSES,
  pauseCauseOf,
  readPausedCredentials,
  type PauseCause,
  type PausedCredential,
} from './reads/provider-batch/paused-credentials.ts';
export { readGauges, type Gauges } from './reads/gauges.ts';
export type { CallOutput } from './commits/run/call-outputs.ts';
export { commitCallResults, type CallResult } from './commits/run/call-results.ts';
export { commitChunkFailed } from './commits/run/chunk-failure.ts';
export { commitRunsPutOff } from './commits/run/chunk-put-off.ts';
export { isBrokenConstraint, isStatementTimeout, judgeError, type ErrorJudgement } from './judge-error.ts';
