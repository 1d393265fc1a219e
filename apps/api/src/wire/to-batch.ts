import { toUsd, toWireId, type BatchState, type PilotResult } from '@nightshift/agent-core';
import type { BatchRow } from '@nightshift/db';
import type { BatchResponse } from '../schemas/batch.ts';
import { USER_ID } from '../schemas/ids.ts';
import { toUsage } from './to-usage.ts';

/** Letta's names. A batch is cancelled from the request on, although paid answers still arrive. */
const STATUS: Readonly<Record<BatchState, BatchResponse['status']>> = {
  receiving: 'created',
  running: 'running',
  paused: 'running',
  cancelling: 'cancelled',
  completed: 'completed',
  cancelled: 'cancelled',
  failed: 'failed',
};

/** Returns a sentence about the runs that are tried again; null without any. */
function toRetryReason({ retrying, retry_error, retry_errors_vary }: BatchRow): string | null {
  if (retrying === 0 || retry_error === null) return null;
  const runs = retrying === 1 ? '1 run waits' : `${retrying} runs wait`;
  const mostly = retry_errors_vary === true ? 'mostly ' : '';
  return `${runs} to be tried again: ${mostly}${retry_error.type}: ${retry_error.message}`;
}

/** Converts a stored batch to an answer. */
export function toBatchResponse(batch: BatchRow): BatchResponse {
  const { total, accepted, skipped, queued, requires_action, completed, failed, cancelled, expired } = batch;
  const in_progress = accepted - queued - requires_action - completed - failed - cancelled - expired;
  const completedAt =
    batch.completed_at ?? (STATUS[batch.state] === 'cancelled' ? batch.cancel_requested_at : null);
  return {
    id: toWireId('job', batch.id),
    status: STATUS[batch.state],
    job_type: 'batch',
    created_at: batch.created_at.toISOString(),
    updated_at: batch.updated_at.toISOString(),
    completed_at: completedAt?.toISOString() ?? null,
    state: batch.state,
    state_reason: batch.state_reason ?? toRetryReason(batch),
    apply: batch.apply,
    counts: {
      total,
      accepted,
      skipped,
      queued,
      in_progress,
      retrying: batch.retrying,
      requires_action,
      completed,
      failed,
      cancelled,
      expired,
    },
    progress: null,
    usage: toUsage(batch),
    results_url: `/v1/batches/${toWireId('job', batch.id)}/results`,
    limits: {
      max_cost_usd: toUsd(batch.max_cost_nanousd),
      max_output_tokens: batch.max_output_tokens,
      reserved_usd: toUsd(batch.reserved_nanousd),
      reserved_output_tokens: batch.reserved_output_tokens,
      overshoots: batch.overshoots,
      cut_offs: batch.cut_offs,
    },
    expected_cost_usd: toUsd(batch.expected_nanousd),
    estimate_error: batch.estimate_error,
    pilot: toPilot(batch),
    schedule_id: batch.schedule_id === null ? null : toWireId('schedule', batch.schedule_id),
    tick_due_at: batch.tick_due_at?.toISOString() ?? null,
    expires_at: batch.expires_at?.toISOString() ?? null,
    name: batch.name,
    tags: [...batch.tags],
    stop_when: batch.stop_when,
    retry_of: batch.retry_of === null ? null : toWireId('job', batch.retry_of),
    metadata: batch.metadata,
    callback_url: batch.callback_url,
    callback_events: [...batch.callback_events],
    callback_sent_at: batch.callback_sent_at?.toISOString() ?? null,
    callback_status_code: batch.callback_status_code,
    callback_error: batch.callback_error,
    background: false,
    agent_id: null,
    stop_reason: null,
    ttft_ns: null,
    total_duration_ns:
      completedAt === null ? null : (completedAt.getTime() - batch.created_at.getTime()) * 1_000_000,
    created_by_id: USER_ID,
    last_updated_by_id: USER_ID,
    user_id: USER_ID,
  };
}

function toPilot({
  pilot,
  pilot_state,
  pilot_runs,
  pilot_ended_at,
  pilot_result,
}: BatchRow): BatchResponse['pilot'] {
  if (pilot === null || pilot_state === null) return null;
  const { runs, then, failure_rate } = pilot;
  return {
    state: pilot_state,
    runs: pilot_runs ?? runs,
    then,
    failure_rate,
    ended_at: pilot_ended_at?.toISOString() ?? null,
    result: pilot_result === null ? null : toPilotResult(pilot_result),
  };
}

function toPilotResult(result: PilotResult): NonNullable<BatchResponse['pilot']>['result'] {
  const { completed, failed, cancelled, output_tokens, stop_reasons, errors, projection } = result;
  const cost = projection.cost_nanousd;
  return {
    completed,
    failed,
    cancelled,
    cost_usd: toUsd(result.cost_nanousd),
    output_tokens,
    steps: { mean: result.steps_mean, max: result.steps_max },
    stop_reasons,
    errors: [...errors],
    projected_cost_usd:
      cost === null ? null : { low: toUsd(cost.low), expected: toUsd(cost.expected), high: toUsd(cost.high) },
    projected_output_tokens: projection.output_tokens,
  };
}
