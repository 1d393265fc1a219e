export {
  connect,
  DEFAULT_PROJECT_ID,
  inTransaction,
  newConversationId,
  newId,
  newRunId,
  readNow,
  takesWrites,
  type Database,
  type Tx,
} from './connect.ts';
export { assertUsable, explained } from './assert-usable.ts';
export { assertGranted } from './grants.ts';
export type { DB } from './tables.ts';
export { assertMigrated, migrateToLatest, MIGRATIONS } from './migrations/migrate.ts';

// What the API stores and reads.
export { commitBatch, type AcceptedBatch } from './commits/commit-batch.ts';
export type { InputMessage, NewBatch, NewRun } from './commits/new-batch.ts';
export { distinctWishes, wishesOf } from './commits/run-wishes.ts';
export { attachBlock, detachBlock } from './commits/attach-block.ts';
export { attachTool, detachTool } from './commits/attach-tool.ts';
export { changeAgent, type AgentChange } from './commits/change-agent.ts';
export { changeTool, deleteTool, type ToolChange } from './commits/change-tool.ts';
export { createAgents, type NewAgent } from './commits/create-agents.ts';
export { createBlocks, type NewBlock } from './commits/create-blocks.ts';
export { commitBlocksReleased, deleteAgent } from './commits/delete-agent.ts';
export { deleteBlock } from './commits/delete-block.ts';
export { registerMemoryTools, registerModuleTools, type ModuleTool } from './commits/register-tools.ts';
export { resetMessages } from './commits/reset-messages.ts';
export { commitOverdueRuns, type OverdueReport } from './commits/deadlines.ts';
export { commitCallerAnswers, type NewCallerAnswer } from './commits/caller-answers.ts';
export {
  readAwaitedCalls,
  readAwaitingRuns,
  type AwaitedCallRow,
  type AwaitingRun,
} from './reads/awaited-calls.ts';
export { pauseBatch, pauseBatches, resumeBatch } from './commits/pause-batch.ts';
export { changeCaps, type CapChange } from './commits/change-caps.ts';
export { requestBatchCancel } from './commits/request-batch-cancel.ts';
export {
  revertBatch,
  type RevertedBlock,
  type RevertRefusal,
  type RevertReport,
} from './commits/revert-batch.ts';
export {
  acceptHeldChanges,
  rejectHeldChanges,
  type AcceptReport,
  type HeldFilter,
  type StaleChange,
} from './commits/settle-held-changes.ts';
export { relabelBlock, writeBlock, type BlockContent } from './commits/write-block.ts';
export { lockAgent, lockAgents } from './locks/lock-agent.ts';
export { lockConversations } from './locks/lock-conversations.ts';
export { lockIdempotencyKey } from './locks/lock-idempotency-key.ts';
export {
  listAgents,
  listTags,
  MESSAGE_IDS_MAX,
  readAgent,
  type AgentFilter,
  type AgentRelations,
  type AgentRow,
} from './reads/agents.ts';
export { listBatches, readBatch, readBatchModels, type BatchRow } from './reads/batches.ts';
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
} from './reads/blocks.ts';
export {
  listBlockRevisions,
  listMemoryChanges,
  readBlockRevisions,
  type BlockRevisionRow,
  type MemoryChangeFilter,
  type MemoryChangeRow,
  type NumberPage,
  type RevisionKey,
} from './reads/block-revisions.ts';
export { PAGE_BYTES_MAX, type Listed } from './reads/cut-page.ts';
export { listHeldChanges, type HeldChangeFilter, type HeldChangeRow } from './reads/held-changes.ts';
export {
  readConversationSizes,
  readLastRuns,
  readRunHistory,
  type ConversationSize,
  type LastRun,
  type RunHistory,
} from './reads/run-facts.ts';
export {
  readAgentDefinitions,
  readRunAgents,
  type RunAgent,
  type AgentDefinition,
  type DefinitionWish,
} from './reads/agent-definitions.ts';
export { findBatchOfRetry, findIdempotentBatch, type IdempotentBatch } from './reads/idempotency-keys.ts';
export type { Page } from './reads/keyset.ts';
export {
  listBatchMessages,
  listConversationMessages,
  readContextSeqs,
  readContextSeqsOf,
  readToolNames,
  type BatchMessageRow,
  type ContextSeqs,
  type MessageRange,
  type MessageRow,
} from './reads/messages.ts';
export { listRuns, readRun, readRunUsage, type RunFilter, type RunRow, type RunUsage } from './reads/runs.ts';
export { readOwnTexts, readShownBlocks, type EditedBlock, type ShownBlock } from './reads/shown-blocks.ts';
export { listSteps, readStep, type StepFilter, type StepRow } from './reads/steps.ts';
export {
  findTools,
  listAgentTools,
  listTools,
  readMissingModuleTools,
  readTool,
  readToolsOfAgents,
  type AgentToolRow,
  type ToolFilter,
  type ToolRow,
} from './reads/tools.ts';

// What the worker claims, locks, commits and reads.
export {
  holdLease,
  releaseAllLeases,
  releaseLease,
  releaseLeases,
  renewLeases,
  type Claimant,
  type Lease,
  type LeasedTable,
} from './claims/lease.ts';
export { claimDueBatches, type ClaimedBatch } from './claims/claim-batches.ts';
export {
  claimCredential,
  releaseCredential,
  type ClaimedCredential,
  type CredentialVerdict,
} from './claims/claim-credential.ts';
export { haltCredential, pauseCredential, resumeCredential } from './commits/pause-credential.ts';
export { declareAnswerer } from './commits/declare-answerer.ts';
export { commitOrphan } from './commits/orphans.ts';
export { commitProven, type ProvenBatch, type ProvenOutcome } from './commits/proven.ts';
export { commitClockOffset } from './commits/provider-clock.ts';
export { readProviderClocks, type MeasuredClock } from './reads/provider-clocks.ts';
export { readWatchedSubmissions, type WatchedSubmission } from './reads/watched-submissions.ts';
export {
  claimDuePolls,
  claimDueProviderBatches,
  claimDueSend,
  claimProviderBatch,
  forgetLapses,
  noteSuspect,
  noteTried,
  type ClaimedPolls,
  type ClaimedProviderBatch,
  type ClaimedSend,
} from './claims/claim-provider-batches.ts';
export { claimToolsChunk, type ClaimedRunChunk } from './claims/claim-run-chunk.ts';
export type { BlockChange, BlockWriterCall, HeldCopy, KeptPassage } from './commits/block-change.ts';
export {
  readTimeZones,
  searchMessages,
  searchPassages,
  type MessageSearch,
  type PassageSearch,
} from './reads/store-searches.ts';
export { readHeldDrafts, type HeldDraft } from './reads/held-blocks.ts';
export { assertLabelFree, readLabelsBeside, type UsedLabel } from './reads/labels-beside.ts';
export { lockBlock, lockBlocksOfAgents, type LockedBlock } from './locks/lock-blocks.ts';
export { lockRuns } from './locks/lock-runs.ts';
export { lockSendable } from './locks/lock-sendable.ts';
export { lockPauseMs, lockUsable } from './locks/lock-pause.ts';
export { readBatchStates, readRunsToDecide, type RunToDecide } from './reads/runs-to-decide.ts';
export { sealReadyRuns, type Sealed } from './commits/seal-ready-runs.ts';
export { type OutputMaxima } from './reads/output-max.ts';
export { commitReservations, type ReservationVerdict } from './commits/reservations.ts';
export { queueFreedRuns } from './commits/queue-again.ts';
export { lockBudgets, type LockedBudget } from './locks/lock-budgets.ts';
export { readAskingRuns, type AskingRow } from './reads/asking-runs.ts';
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
} from './commits/submission.ts';
export {
  commitCancelRequested,
  commitIngested,
  commitPolled,
  commitStreamAgain,
  type PolledBatch,
} from './commits/progress.ts';
export {
  commitCallsBegun,
  commitDecisions,
  commitRunsEnded,
  commitToolResults,
  NOTHING_COMMITTED,
  type CommitReport,
  type ToolResultsOfRun,
} from './commits/decisions.ts';
export type { DecidedRun, NewToolCall } from './commits/decided-rows.ts';
export { tallySlot } from './commits/tallies.ts';
export { commitParkedRunsReleased, commitRunsCancelled, readProviderBatchesOf } from './commits/cancel.ts';
export { commitUnsentDue } from './commits/unsent-due.ts';
export { commitBatchFinish, lockForFinish, markFinishedBatches } from './commits/finish.ts';
export { commitWaitingRunsStarted, deleteOldIdempotencyKeys, markIdleBatches } from './commits/sweep.ts';
export { commitQuarantinedLines, type QuarantinedLine } from './commits/quarantine.ts';
export { readActingRuns, type ActingRun } from './reads/acting-runs.ts';
export {
  readBlocksAt,
  readRequestBytes,
  readSealedRequests,
  readShownSeqs,
  type SealedRequest,
} from './reads/sealed-requests.ts';
export { readStalePrefixes } from './reads/stale-prefixes.ts';
export { readTokenCalibrations } from './reads/token-calibrations.ts';
export type { TokenSample } from './commits/token-calibrations.ts';
export { commitStepsFitted, type FittedStep } from './commits/fit-steps.ts';
export { readDefinitions } from './reads/definitions.ts';
export { readUnsendableSteps } from './reads/unsendable-steps.ts';
export { readKnownProviderIds } from './reads/known-provider-ids.ts';
export { readOpenDoubts, type OpenDoubt } from './reads/open-doubts.ts';
export { readOpenSteps } from './reads/open-steps.ts';
export { readPutAsideBills } from './reads/put-aside-bills.ts';
export { readStepsAtLimit } from './reads/steps-at-limit.ts';
export { readDueWork, type DueWork, type DueWorkQuestion } from './reads/due-work.ts';
export { readReadyBacklog, type ReadyBacklog } from './reads/ready-backlog.ts';
export { commitCallback, type CallbackDelivery } from './commits/callback.ts';
export { readEndedBatch, type EndedBatch } from './reads/ended-batch.ts';
export { auditInvariants, invariants, type AuditOptions, type Violation } from './audit/audit-invariants.ts';
export type { Invariant } from './audit/invariant.ts';
export {
  claimAudit,
  commitAudit,
  MONEY_INVARIANTS,
  readLastAudit,
  type AuditReport,
} from './audit/audit-reports.ts';
export {
  PAUSE_CAUSES,
  readPausedCredentials,
  type PauseCause,
  type PausedCredential,
} from './reads/paused-credentials.ts';
export { readGauges, type Gauges } from './reads/gauges.ts';
export { commitCallResults, type CallResult } from './commits/call-results.ts';
export { commitChunkFailed } from './commits/chunk-failure.ts';
export { isBrokenConstraint, isStatementTimeout, judgeError, type ErrorJudgement } from './judge-error.ts';
