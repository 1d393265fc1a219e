import type { App, Context } from '../context.ts';
import { auditNow } from './admin/audit.ts';
import { retrieveChecks } from './admin/checks.ts';
import { metrics } from './admin/metrics.ts';
import { attachAndDetachBlock } from './agent-blocks/attach.ts';
import { listAgentBlocks, retrieveAgentBlock, updateAgentBlock } from './agent-blocks/by-label.ts';
import { listCursors } from './agent-cursors/list.ts';
import { rewindCursor } from './agent-cursors/rewind.ts';
import { updateToolApproval } from './agent-tools/approval.ts';
import { attachAndDetachTool } from './agent-tools/attach.ts';
import { listAgentTools } from './agent-tools/list.ts';
import { runAgentTool } from './agent-tools/run.ts';
import { createAgent } from './agents/create.ts';
import { deleteAgent } from './agents/delete.ts';
import { listAgentMessages } from './agents/list-messages.ts';
import { listAgents, retrieveAgent } from './agents/read.ts';
import { resetMessages } from './agents/reset-messages.ts';
import { updateAgent } from './agents/update.ts';
import { downloadResults } from './batch-results/download.ts';
import { cancelBatch } from './batches/cancel.ts';
import { deleteBatch } from './batches/delete.ts';
import { cancelSome } from './batches/cancel-some.ts';
import { listErrors } from './batches/errors.ts';
import { retryBatch } from './batches/retry.ts';
import { listSkipped } from './batches/skipped.ts';
import { createBatch } from './batches/create.ts';
import { listBatchMessages } from './batches/list-messages.ts';
import { listMemoryChanges } from './batches/memory-changes.ts';
import { exportAgents } from './agent-files/export-lines.ts';
import { exportAgent } from './agent-files/export.ts';
import { importAgents } from './agent-files/import.ts';
import { changeBatchCaps } from './batches/change-caps.ts';
import { estimateBatch } from './batches/estimate.ts';
import { pauseBatch, resumeBatch } from './batches/pause.ts';
import { listBatches, retrieveBatch } from './batches/read.ts';
import { editHeldChange, listHeldChanges, summarizeHeldChanges } from './batches/held-changes.ts';
import { acceptHeldChanges, rejectHeldChanges } from './batches/settle-held-changes.ts';
import { retrieveProgress, retrieveTimeline, streamBatchEvents } from './batches/progress.ts';
import { revertBatch } from './batches/revert.ts';
import { revertBlock } from './blocks/revert.ts';
import { diffBlock, listBlockRevisions, retrieveBlockRevision } from './blocks/revisions.ts';
import { listAgentsOfBlock, listBlocks, retrieveBlock } from './blocks/read.ts';
import { createBlock, deleteBlock, updateBlock } from './blocks/write.ts';
import { streamEvents } from './events/stream.ts';
import { listFailedRuns } from './errors/list.ts';
import { lettaHealth, livez, readyz } from './health/health.ts';
import { approveMcpTools } from './mcp-servers/approve.ts';
import { listMcpServers, retrieveMcpServer } from './mcp-servers/read.ts';
import { createMcpServer, deleteMcpServer, refreshMcpServer, updateMcpServer } from './mcp-servers/write.ts';
import { appendMessages, appendMessagesOfAgents } from './messages/append.ts';
import { listEmbeddingModels, listModels } from './models/list.ts';
import { cancelRun } from './runs/cancel.ts';
import { listRunMessages } from './runs/list-messages.ts';
import { listRuns, retrieveRun, retrieveRunUsage } from './runs/read.ts';
import { retrieveRunTimeline } from './runs/timeline.ts';
import { listToolCalls } from './runs/tool-calls.ts';
import { sendToolResults } from './runs/tool-results.ts';
import { deleteSecret, listSecrets, putSecret } from './secrets/secrets.ts';
import { createSchedule } from './schedules/create.ts';
import { pauseSchedule, resumeSchedule } from './schedules/pause.ts';
import { previewRule, previewSchedule } from './schedules/preview.ts';
import { deleteSchedule, listSchedules, listTicks, retrieveSchedule } from './schedules/read.ts';
import { runSchedule } from './schedules/run-now.ts';
import { updateSchedule } from './schedules/update.ts';
import { listSteps, listStepsOfRun, retrieveStep } from './steps/read.ts';
import { retrieveStepRequest } from './steps/request.ts';
import { listTags } from './tags/list.ts';
import { deleteTool, updateTool } from './tools/change.ts';
import { createTool, upsertTool } from './tools/create.ts';
import { retrieveUsage } from './usage/read.ts';
import { drainWorker } from './workers/drain.ts';
import { listWorkers } from './workers/list.ts';
import { addBaseTools, listTools, retrieveTool } from './tools/read.ts';

type Route = (app: App, context: Context) => void;
type BatchRoute = (app: App, context: Context, path: string, hide: boolean) => void;

const OPEN: readonly Route[] = [lettaHealth, livez, readyz];

const KEYED: readonly Route[] = [
  ...[createAgent, retrieveAgent, listAgents, updateAgent, deleteAgent, listAgentMessages, resetMessages],
  ...[exportAgent, exportAgents, importAgents],
  ...[appendMessages, appendMessagesOfAgents],
  ...[listAgentBlocks, retrieveAgentBlock, updateAgentBlock, attachAndDetachBlock],
  ...[listCursors, rewindCursor],
  ...[listAgentTools, attachAndDetachTool, updateToolApproval, runAgentTool],
  ...[createBlock, retrieveBlock, listBlocks, updateBlock, deleteBlock, listAgentsOfBlock],
  ...[listBlockRevisions, retrieveBlockRevision, diffBlock, revertBlock],
  ...[createTool, upsertTool, retrieveTool, listTools, updateTool, deleteTool, addBaseTools],
  ...[createMcpServer, listMcpServers, retrieveMcpServer, updateMcpServer, refreshMcpServer],
  ...[approveMcpTools, deleteMcpServer],
  ...[putSecret, listSecrets, deleteSecret],
  ...[listRuns, retrieveRun, retrieveRunUsage, sendToolResults, listRunMessages, listStepsOfRun],
  ...[listToolCalls, retrieveRunTimeline, cancelRun, listFailedRuns],
  ...[createSchedule, retrieveSchedule, listSchedules, updateSchedule, deleteSchedule, pauseSchedule],
  ...[resumeSchedule, runSchedule, previewRule, previewSchedule, listTicks],
  ...[listSteps, retrieveStep, retrieveStepRequest],
  ...[listModels, listEmbeddingModels, listTags],
  ...[streamEvents, auditNow, retrieveChecks, metrics, retrieveUsage],
  ...[listWorkers, drainWorker],
];

const BATCHES: readonly BatchRoute[] = [
  createBatch,
  estimateBatch,
  retrieveBatch,
  retrieveProgress,
  retrieveTimeline,
  streamBatchEvents,
  listBatches,
  cancelBatch,
  deleteBatch,
  cancelSome,
  listErrors,
  retryBatch,
  pauseBatch,
  resumeBatch,
  changeBatchCaps,
  listBatchMessages,
  listSkipped,
  listMemoryChanges,
  downloadResults,
  revertBatch,
  listHeldChanges,
  summarizeHeldChanges,
  editHeldChange,
  acceptHeldChanges,
  rejectHeldChanges,
];

/** Registers the routes that need no key. */
export function openRoutes(app: App, context: Context): void {
  for (const route of OPEN) route(app, context);
}

/** Registers the routes that need the key. Batches have Letta's path and a shorter path; the documentation shows Letta's. */
export function keyedRoutes(app: App, context: Context): void {
  for (const route of KEYED) route(app, context);
  for (const route of BATCHES) {
    route(app, context, '/v1/messages/batches', false);
    route(app, context, '/v1/batches', true);
  }
}
