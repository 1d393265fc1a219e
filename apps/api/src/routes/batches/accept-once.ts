import { estimateBatch, NightshiftError, type Cap } from '@nightshift/agent-core';
import {
  findBatchOfRetry,
  findIdempotentBatch,
  lockIdempotencyKey,
  type Database,
  type Tx,
} from '@nightshift/db';
import {
  isCapped,
  refuseCannotStart,
  refuseLowCap,
  storeBatch,
  toCap,
  type PreparedBatch,
  type PreparedFleet,
  type StoredBatch,
} from '@nightshift/intake';
import type { Context } from '../../context.ts';
import type { Idempotency } from './idempotency.ts';
import { measureFleet } from './measure-fleet.ts';

/** Agents of a fleet with a cap whose requests are measured before it is accepted, and before it is refused. */
const AGENTS_MEASURED = 50;
const AGENTS_JUDGED = 2_000;

/** A batch to store, with the times of its request. */
export interface CreateRequest {
  readonly prepared: PreparedBatch;
  readonly now: Date;
  readonly arrivedAt: Date;
}

/** The stored batch, of this or of an earlier request. */
export interface CreateResult extends StoredBatch {
  readonly replayed: boolean;
}

/**
 * Stores a batch, unless an earlier request with its key did.
 * Throws: `idempotency_mismatch` for another body under the key; the refusals of a batch.
 */
export async function acceptOnce(
  trx: Tx,
  { projectId, prices }: Pick<Context, 'projectId' | 'prices'>,
  { prepared, now, arrivedAt }: CreateRequest,
  idempotency: Idempotency,
): Promise<CreateResult> {
  const { key, request_sha256, by_retry } = idempotency;
  await lockIdempotencyKey(trx, projectId, key);
  const earlier = await findEarlier(trx, projectId, idempotency, arrivedAt);
  if (earlier !== null) return earlier;
  // Checked after the replay: a repeated batch may have been accepted before its deadline.
  const made = await storeBatch(trx, projectId, prepared, {
    now,
    prices,
    idempotency: { key, request_sha256, by_retry },
  });
  const cap = toCap(prepared.options);
  if ('source' in prepared) await refuseLowFleetCap({ db: trx, projectId, prices }, prepared, cap);
  // The caps of an upload were judged before, by its staged lines.
  else if (!('lines' in prepared)) await refuseLowCap(trx, made.batch_id, prices, cap);
  return { ...made, replayed: false };
}

/**
 * Finds the batch of an earlier request with the same key; null without one. Decisions about it need `lockIdempotencyKey`.
 * Throws: `idempotency_mismatch`.
 */
export async function findEarlier(
  db: Database,
  projectId: string,
  { key, request_sha256, replay_minutes }: Idempotency,
  arrivedAt: Date,
): Promise<CreateResult | null> {
  const earlier =
    replay_minutes === null
      ? await findBatchOfRetry(db, projectId, key, arrivedAt)
      : await findIdempotentBatch(db, projectId, key, replay_minutes);
  if (earlier === null) return null;
  if (earlier.request_sha256 !== request_sha256) {
    throw new NightshiftError(
      'idempotency_mismatch',
      'This Idempotency-Key was already used with another body. Send a new key.',
    );
  }
  return { batch_id: earlier.batch_id, ready: 0, is_receiving: false, replayed: true };
}

/**
 * Refuses a cap that leaves no room for a single request of a fleet. Never refuses by a sample of its agents.
 * Throws: `validation_failed` with the smallest sensible cap.
 */
async function refuseLowFleetCap(
  context: Pick<Context, 'db' | 'projectId' | 'prices'>,
  prepared: PreparedFleet & Pick<PreparedBatch, 'options'>,
  cap: Cap,
): Promise<void> {
  if (!isCapped(cap)) return;
  for (const agentsMax of [AGENTS_MEASURED, AGENTS_JUDGED]) {
    const { groups, fleet } = await measureFleet(context, prepared.options, prepared, agentsMax);
    const estimate = estimateBatch(context.prices, groups, cap);
    if (estimate.verdict !== 'cannot_start') return;
    if (fleet?.measured_agents === fleet?.agents) refuseCannotStart(estimate, cap);
  }
}
