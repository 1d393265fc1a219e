import { NightshiftError, type BatchState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { toKeyset, type Page } from '../keyset.ts';

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
  /** Billionths of a US dollar; null once an answer came whose model has no price. */
  readonly cost_nanousd: number | null;
  /** Caps, and what is held under them; null for none. */
  readonly max_cost_nanousd: number | null;
  readonly max_output_tokens: number | null;
  readonly reserved_nanousd: number | null;
  readonly reserved_output_tokens: number | null;
}

/** The sums of a batch's few tally rows, so that a batch of any size is read at the same cost. */
const tally = sql`lateral (
  select coalesce(sum(completed), 0)::integer as completed, coalesce(sum(failed), 0)::integer as failed,
    coalesce(sum(cancelled), 0)::integer as cancelled, coalesce(sum(expired), 0)::integer as expired,
    coalesce(sum(requires_action), 0)::integer as requires_action,
    coalesce(sum(steps), 0)::bigint as steps, coalesce(sum(tool_calls), 0)::bigint as tool_calls,
    coalesce(sum(input_tokens), 0)::bigint as input_tokens, coalesce(sum(output_tokens), 0)::bigint as output_tokens,
    coalesce(sum(cache_write_5m_tokens + cache_write_1h_tokens), 0)::bigint as cache_write_tokens,
    coalesce(sum(cache_read_tokens), 0)::bigint as cache_read_tokens,
    case when coalesce(sum(unpriced_steps), 0) = 0 then coalesce(sum(cost_nanousd), 0)::bigint end as cost_nanousd
  from batch_tally where batch_id = b.id)`;

const columns = sql`b.id, b.state, b.state_reason, b.total, b.metadata, b.apply, b.callback_url, b.callback_sent_at,
  b.callback_status_code, b.callback_error, b.created_at, b.updated_at, b.cancel_requested_at, b.completed_at, t.*,
  g.max_cost_nanousd, g.max_output_tokens, g.reserved_nanousd, g.reserved_output_tokens`;
const tables = sql`batch b cross join ${tally} t left join batch_budget g on g.batch_id = b.id`;

/** One batch; throws `not_found`. Index: primary keys. */
export async function readBatch(db: Database, projectId: string, batchId: string): Promise<BatchRow> {
  const { rows } = await sql<BatchRow>`
    select ${columns} from ${tables} where b.id = ${batchId} and b.project_id = ${projectId}
  `.execute(db);
  const [batch] = rows;
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  return batch;
}

/** A page of batches by age. Index: `batch_by_age`. */
export async function listBatches(db: Database, projectId: string, page: Page): Promise<Listed<BatchRow>> {
  const keyset = await toKeyset(db, page, 'batch', 'b');
  const { rows, is_cut } = await readCutPage<BatchRow>(
    db,
    sql`
    select ${columns} from ${tables}
    where b.project_id = ${projectId} and ${keyset.where} order by ${keyset.orderBy} limit ${page.limit}
  `,
    sql`octet_length(concat(p.metadata))`,
  );
  return { rows: keyset.inOrder(rows), is_cut };
}

/** Handles of the models that the runs of a batch use. Index: the unique (batch, ordinal). */
export async function readBatchModels(db: Database, batchId: string): Promise<readonly string[]> {
  const { rows } = await sql<{ model: string }>`
    select distinct model from definition
     where id in (select definition_id from run where batch_id = ${batchId})
     order by model
  `.execute(db);
  return rows.map((row) => row.model);
}
