import { estimateBatch, type Cap } from '@nightshift/agent-core';
import type { Tx } from '@nightshift/db';
import {
  isCapped,
  refuseCannotStart,
  refuseLowCap,
  storeBatch,
  toCap,
  type PreparedBatch,
  type PreparedFleet,
} from '@nightshift/intake';
import type { Context } from '../../context.ts';
import type { Idempotency } from './idempotency.ts';
import { measureFleet } from './measure-fleet.ts';
import { storeOnce, type OnceStored } from './once.ts';

/** Agents of a fleet with a cap whose requests are measured before it is accepted, and before it is refused. */
const AGENTS_MEASURED = 50;
const AGENTS_JUDGED = 2_000;

/** A batch to store, with the times of its request. */
export interface CreateRequest {
  readonly prepared: PreparedBatch;
  readonly now: Date;
  readonly arrivedAt: Date;
}

/**
 * Stores a batch, unless an earlier request with its key did.
 * Throws: `idempotency_mismatch` for another body under the key; the refusals of a batch.
 */
export function acceptOnce(
  trx: Tx,
  { projectId, prices }: Pick<Context, 'projectId' | 'prices'>,
  { prepared, now, arrivedAt }: CreateRequest,
  idempotency: Idempotency,
): Promise<OnceStored> {
  // The deadline is checked after the replay: a repeated batch may have been accepted before it.
  return storeOnce(trx, projectId, idempotency, arrivedAt, async (idempotency) => {
    const made = await storeBatch(trx, projectId, prepared, { now, prices, idempotency });
    const cap = toCap(prepared.options);
    if ('source' in prepared) await refuseLowFleetCap({ db: trx, projectId, prices }, prepared, cap);
    // The caps of an upload were judged before, by its staged lines.
    else if (!('lines' in prepared)) await refuseLowCap(trx, made.batch_id, prices, cap);
    return made;
  });
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
