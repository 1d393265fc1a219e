import { NightshiftError } from '@nightshift/agent-core';
import {
  lockRetriedBatch,
  newId,
  receiveRetry,
  type RetriedBatch,
  type RetryChoice,
  type Tx,
} from '@nightshift/db';
import { refusePassedDeadlines, toError } from '../plan-batch.ts';
import { toPilot, toStopWhen, type StoredBatch, type StoreSettings } from '../store-batch.ts';
import { toCap } from '../to-runs.ts';
import type { RetryRequest, RetrySource } from './request.ts';

/**
 * Stores a batch that tries ended runs of another batch again, as `receiving`.
 * Throws: `not_found`; `validation_failed` under a cursor, for a passed deadline, and when no run matches.
 * Locks: the batch of the runs.
 */
export async function storeRetry(
  trx: Tx,
  projectId: string,
  batchId: string,
  request: RetryRequest,
  { now, idempotency }: Pick<StoreSettings, 'now' | 'idempotency'>,
): Promise<StoredBatch> {
  const retried = await lockRetriedBatch(trx, projectId, batchId);
  refuseCursor(retried);
  const deadline = request.deadline ?? null;
  const late = refusePassedDeadlines({ deadline, runs: [], shared_path: null }, now);
  if (late !== null) throw toError(late);
  const apply = request.apply ?? retried.apply;
  const hold_if = given(request.hold_if, retried.hold_if);
  if (request.hold_if != null && apply !== 'review') throw refused('/hold_if', 'needs apply: review');
  const callback_url = given(request.callback_url, retried.callback_url);
  if ((request.callback_events?.length ?? 0) > 0 && callback_url === null)
    throw refused('/callback_events', 'needs callback_url: the events are sent there');
  const cap = toCap(request);
  const source: RetrySource = {
    kind: 'retry',
    definitions: request.definitions ?? 'same',
    model: modelOf(retried.source),
    deadline,
  };
  const id = newId();
  await receiveRetry(trx, projectId, {
    ...{ id, idempotency, source, retry_of: batchId, choice: choiceOf(request), deadline, apply },
    hold_if: apply === 'review' ? hold_if : null,
    callback_url,
    callback_events:
      callback_url === null ? [] : (given(request.callback_events, retried.callback_events) ?? []),
    expires_in_days: given(request.expires_in_days, retried.expires_in_days),
    metadata: given(request.metadata, retried.metadata),
    name: given(request.name, retried.name),
    tags: given(request.tags, retried.tags) ?? [],
    stop_when:
      request.stop_when === undefined
        ? retried.stop_when
        : request.stop_when === null
          ? null
          : toStopWhen(request.stop_when),
    pilot: request.pilot == null ? null : toPilot(request.pilot),
    cap: {
      cost_nanousd: request.max_cost_usd === undefined ? retried.max_cost_nanousd : cap.cost_nanousd,
      output_tokens: request.max_output_tokens === undefined ? retried.max_output_tokens : cap.output_tokens,
    },
  });
  return { batch_id: id, ready: 0, is_receiving: true };
}

/** Without any field, the failed and expired runs; else the ended runs that match all fields. */
function choiceOf({ states, ended_reasons, error_group, run_ids }: RetryRequest): RetryChoice {
  const isOpen = states == null && ended_reasons == null && error_group == null && run_ids == null;
  return {
    states: isOpen ? ['failed', 'expired'] : (states ?? null),
    ended_reasons: ended_reasons ?? null,
    error_group: error_group ?? null,
    run_ids: run_ids ?? null,
  };
}

function given<Value>(value: Value | null | undefined, otherwise: Value | null): Value | null {
  return value === undefined ? otherwise : value;
}

/** Returns the model that a fleet gave its runs. */
function modelOf(source: unknown): string | null {
  const { model } = (source ?? {}) as { readonly model?: unknown };
  return typeof model === 'string' ? model : null;
}

/** Refuses a batch whose messages the next batch under its cursor reads again anyway. */
function refuseCursor({ id, source }: RetriedBatch): void {
  const { kind, cursor } = (source ?? {}) as { readonly kind?: unknown; readonly cursor?: unknown };
  if (kind !== 'memory_rewrite' && cursor == null) return;
  const message =
    `job-${id} reads new messages under a cursor, which its failed runs did not move: the next batch under that cursor ` +
    'is the retry. Submit it, or wait for the schedule.';
  throw new NightshiftError('validation_failed', message);
}

function refused(path: string, message: string): NightshiftError {
  return new NightshiftError('validation_failed', `${path} ${message}. Nothing was stored.`, {
    fields: [{ path, message }],
  });
}
