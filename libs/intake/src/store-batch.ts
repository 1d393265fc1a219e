import {
  PILOT_FAILURE_RATE_DEFAULT,
  PILOT_RUNS_DEFAULT,
  STOP_AFTER_DEFAULT,
  type Cap,
  type PilotSettings,
  type PriceTable,
  type StopWhen,
} from '@nightshift/agent-core';
import { newId, receiveLines, type NewBatch, type Tx } from '@nightshift/db';
import type { Signal } from '@nightshift/queue';
import { acceptBatch } from './accept-batch.ts';
import { storeFleet } from './fleet/store-fleet.ts';
import type { PreparedBatch } from './prepare-batch.ts';
import type { PilotRequest, StopRequest } from './request.ts';
import { toCap } from './to-runs.ts';
import type { LinesSource } from './upload/staged-run.ts';

/** The origin of a batch, and the facts of its checks. */
export interface StoreSettings {
  /** The database's time. */
  readonly now: Date;
  readonly prices: PriceTable;
  readonly idempotency: NewBatch['idempotency'];
  /** The tick that makes the batch; its row is the caller's. Default: none. */
  readonly tick?: { readonly schedule_id: string; readonly due_at: Date };
  /** Lowers the cost cap of the body. Default: none. */
  readonly max_cost_nanousd?: number | null;
}

export interface StoredBatch {
  readonly batch_id: string;
  /** Runs that can be sealed. */
  readonly ready: number;
  /** The flow `accept-batch` makes its runs. */
  readonly is_receiving: boolean;
}

/** Returns the signals for a stored batch. Ring them after the commit. */
export function signalsOfStored({ batch_id, ready, is_receiving }: StoredBatch): readonly Signal[] {
  if (is_receiving) return [{ kind: 'accept', id: batch_id }];
  return ready > 0 ? [{ kind: 'compose', id: '*' }] : [];
}

/**
 * Stores a batch: with all its runs, or as `receiving` with its source or its staged lines.
 * Throws: the refusal of the plan, before anything is stored.
 */
export async function storeBatch(
  trx: Tx,
  projectId: string,
  prepared: PreparedBatch,
  settings: StoreSettings,
): Promise<StoredBatch> {
  const { now, prices, idempotency } = settings;
  const { options } = prepared;
  const batch = {
    id: 'lines' in prepared ? prepared.batch_id : newId(),
    callback_url: options.callback_url ?? null,
    callback_events: options.callback_events ?? [],
    deadline: options.deadline ?? null,
    metadata: options.metadata ?? null,
    apply: options.apply ?? 'auto',
    hold_if: options.hold_if ?? null,
    pilot: options.pilot == null ? null : toPilot(options.pilot),
    expires_in_days: options.expires_in_days ?? null,
    name: options.name ?? null,
    tags: options.tags ?? [],
    stop_when: options.stop_when == null ? null : toStopWhen(options.stop_when),
    cap: lowerCap(toCap(options), settings.max_cost_nanousd ?? null),
    idempotency,
    tick: settings.tick,
  };
  if ('source' in prepared) {
    const { source, labels } = prepared;
    await storeFleet(trx, projectId, { batch, source, labels, deadline: batch.deadline }, { now, prices });
    return { batch_id: batch.id, ready: 0, is_receiving: true };
  }
  if ('lines' in prepared) {
    const { lines, shared, has_capped_runs } = prepared;
    const source: LinesSource = { kind: 'lines', shared, deadline: batch.deadline };
    await receiveLines(trx, projectId, { ...batch, source, lines, has_capped_runs });
    return { batch_id: batch.id, ready: 0, is_receiving: true };
  }
  const { runs, tools, shared_path } = prepared;
  const { ready } = await acceptBatch(
    trx,
    projectId,
    { ...batch, runs, tools, shared_path },
    { now, prices },
  );
  return { batch_id: batch.id, ready, is_receiving: false };
}

/** Converts a pilot, with its defaults. */
export function toPilot({ runs, then, failure_rate }: PilotRequest): PilotSettings {
  return {
    runs: runs ?? PILOT_RUNS_DEFAULT,
    then,
    failure_rate: failure_rate ?? PILOT_FAILURE_RATE_DEFAULT,
  };
}

/** Converts limits on failures; absent limits are null. */
export function toStopWhen({ first, failure_rate, after }: StopRequest): StopWhen {
  return {
    first: first ?? null,
    failure_rate: failure_rate ?? null,
    after: failure_rate == null ? null : (after ?? STOP_AFTER_DEFAULT),
  };
}

/** Lowers a cap in dollars; null: no further limit. */
function lowerCap(cap: Cap, limit: number | null): Cap {
  if (limit === null) return cap;
  return { ...cap, cost_nanousd: Math.min(cap.cost_nanousd ?? limit, limit) };
}
