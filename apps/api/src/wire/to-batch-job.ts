import { toWireId, type BatchState, toUsd } from '@nightshift/agent-core';
import type { BatchRow } from '@nightshift/db';
import type { BatchJob } from '../schemas/batch.ts';
import { USER_ID } from '../schemas/ids.ts';

/** Letta's names. A cancelled batch shows as such from the request on, although what was paid for still comes in. */
const STATUS: Readonly<Record<BatchState, BatchJob['status']>> = {
  receiving: 'created',
  running: 'running',
  paused: 'running',
  cancelling: 'cancelled',
  completed: 'completed',
  cancelled: 'cancelled',
  failed: 'failed',
};

/** A stored batch as it is answered. */
export function toBatchJob(batch: BatchRow): BatchJob {
  const ended = batch.completed + batch.failed + batch.cancelled + batch.expired;
  return {
    id: toWireId('job', batch.id),
    status: STATUS[batch.state],
    job_type: 'batch',
    created_at: batch.created_at.toISOString(),
    updated_at: batch.updated_at.toISOString(),
    completed_at: batch.completed_at?.toISOString() ?? null,
    metadata: {
      ...batch.metadata,
      job_type: 'batch_messages',
      state: batch.state,
      state_reason: batch.state_reason,
      apply: batch.apply,
      total: batch.total,
      completed: batch.completed,
      failed: batch.failed,
      cancelled: batch.cancelled,
      expired: batch.expired,
      requires_action: batch.requires_action,
      in_progress: batch.total - ended,
      steps: batch.steps,
      tool_calls: batch.tool_calls,
      input_tokens: batch.input_tokens,
      output_tokens: batch.output_tokens,
      cache_write_tokens: batch.cache_write_tokens,
      cache_read_tokens: batch.cache_read_tokens,
      cost_usd: toUsd(batch.cost_nanousd),
      max_cost_usd: toUsd(batch.max_cost_nanousd),
      max_output_tokens: batch.max_output_tokens,
      reserved_usd: toUsd(batch.reserved_nanousd),
      reserved_output_tokens: batch.reserved_output_tokens,
    },
    callback_url: batch.callback_url,
    callback_sent_at: batch.callback_sent_at?.toISOString() ?? null,
    callback_status_code: batch.callback_status_code,
    callback_error: batch.callback_error,
    background: false,
    agent_id: null,
    stop_reason: null,
    ttft_ns: null,
    total_duration_ns:
      batch.completed_at === null
        ? null
        : (batch.completed_at.getTime() - batch.created_at.getTime()) * 1_000_000,
    created_by_id: USER_ID,
    last_updated_by_id: USER_ID,
    user_id: USER_ID,
  };
}
