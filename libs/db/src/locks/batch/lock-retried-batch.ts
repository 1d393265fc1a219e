import {
  NightshiftError,
  type CallbackEventName,
  type HoldRule,
  type StopWhen,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { lockBatchState } from './lock-batch.ts';

/** The options of a batch whose runs are tried again. */
export interface RetriedBatch {
  readonly id: string;
  readonly source: unknown;
  readonly apply: 'auto' | 'review';
  readonly hold_if: HoldRule | null;
  readonly callback_url: string | null;
  readonly callback_events: readonly CallbackEventName[];
  readonly expires_in_days: number | null;
  readonly metadata: Record<string, unknown> | null;
  readonly name: string | null;
  readonly tags: readonly string[];
  readonly stop_when: StopWhen | null;
  readonly max_cost_nanousd: number | null;
  readonly max_output_tokens: number | null;
}

/** Locks a batch, so that retries of it take turns, and reads its options. Throws: `not_found`. Index: primary keys. */
export async function lockRetriedBatch(trx: Tx, projectId: string, batchId: string): Promise<RetriedBatch> {
  await lockBatchState(trx, projectId, batchId);
  const { rows } = await sql<RetriedBatch>`
    select b.id, b.source, b.apply, b.hold_if, b.callback_url, b.callback_events, b.expires_in_days, b.metadata, b.name, b.tags,
           b.stop_when, g.max_cost_nanousd, g.max_output_tokens
      from batch b left join batch_budget g on g.batch_id = b.id where b.id = ${batchId}::uuid
  `.execute(trx);
  const [batch] = rows;
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  return batch;
}
