import { NightshiftError, type BatchState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../connect.ts';
import { toKeyset, type Page } from './keyset.ts';

/** A batch with what its runs have come to. */
export interface BatchRow {
  readonly id: string;
  readonly state: BatchState;
  readonly state_reason: string | null;
  readonly total: number;
  readonly metadata: Record<string, unknown> | null;
  readonly apply: 'auto' | 'review';
  readonly callback_url: string | null;
  readonly callback_sent_at: Date | null;
  readonly callback_status_code: number | null;
  readonly callback_error: string | null;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly cancel_requested_at: Date | null;
  readonly completed_at: Date | null;
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  readonly requires_action: number;
  readonly steps: number;
  readonly tool_calls: number;
  /** Tokens read without a cache. */
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_write_tokens: number;
  readonly cache_read_tokens: number;
  /** Billionths of a US dollar. */
  readonly cost_nanousd: number;
}

const columns = sql`b.id, b.state, b.state_reason, b.total, b.metadata, b.apply, b.callback_url, b.callback_sent_at,
  b.callback_status_code, b.callback_error, b.created_at, b.updated_at, b.cancel_requested_at, b.completed_at, t.*`;

/** The sums of a batch's few tally rows, so that a batch of any size is read at the same cost. */
const tally = sql`lateral (
  select coalesce(sum(completed), 0)::integer as completed, coalesce(sum(failed), 0)::integer as failed,
    coalesce(sum(cancelled), 0)::integer as cancelled, coalesce(sum(expired), 0)::integer as expired,
    coalesce(sum(requires_action), 0)::integer as requires_action,
    coalesce(sum(steps), 0)::bigint as steps, coalesce(sum(tool_calls), 0)::bigint as tool_calls,
    coalesce(sum(input_tokens), 0)::bigint as input_tokens, coalesce(sum(output_tokens), 0)::bigint as output_tokens,
    coalesce(sum(cache_write_5m_tokens + cache_write_1h_tokens), 0)::bigint as cache_write_tokens,
    coalesce(sum(cache_read_tokens), 0)::bigint as cache_read_tokens,
    coalesce(sum(cost_nanousd), 0)::bigint as cost_nanousd
  from batch_tally where batch_id = b.id)`;

/** One batch; throws `not_found`. Index: primary keys. */
export async function readBatch(db: Database, projectId: string, batchId: string): Promise<BatchRow> {
  const { rows } = await sql<BatchRow>`
    select ${columns} from batch b cross join ${tally} t where b.id = ${batchId} and b.project_id = ${projectId}
  `.execute(db);
  const [batch] = rows;
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  return batch;
}

/** A page of batches by age. Index: `batch_by_age`. */
export async function listBatches(db: Database, projectId: string, page: Page): Promise<readonly BatchRow[]> {
  const keyset = await toKeyset(db, page, 'batch', 'b');
  const { rows } = await sql<BatchRow>`
    select ${columns} from batch b cross join ${tally} t
    where b.project_id = ${projectId} and ${keyset.where} order by ${keyset.orderBy} limit ${page.limit}
  `.execute(db);
  return keyset.inOrder(rows);
}
