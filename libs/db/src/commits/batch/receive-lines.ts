import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { unnestRows } from '../unnest-rows.ts';
import { insertBatch, isLimited } from './accepted-rows.ts';
import type { NewBatch } from './new-batch.ts';

/** A batch of staged lines. */
export interface BatchOfLines extends Omit<NewBatch, 'runs'> {
  readonly source: object;
  readonly lines: number;
  /** Whether its runs have caps of their own. */
  readonly has_capped_runs: boolean;
}

/**
 * Stores a batch as `receiving` whose lines are staged, and ends their upload. The flow `accept-batch` makes the runs.
 * Throws: `conflict` for an upload that was dropped. Locks: the upload. Index: primary keys.
 */
export async function receiveLines(trx: Tx, projectId: string, batch: BatchOfLines): Promise<void> {
  const { rows } = await sql<{ now: string }>`
    delete from upload where batch_id = ${batch.id}::uuid returning app_now()::text as now
  `.execute(trx);
  const [upload] = rows;
  if (upload === undefined)
    throw new NightshiftError(
      'conflict',
      'The upload took longer than a day and was dropped. Send it again.',
    );
  const { source, cap, has_capped_runs, lines } = batch;
  const budgeted = isLimited(cap) || has_capped_runs;
  const stored = { state: 'receiving', total: lines, accepted: 0, queued: 0, source, budgeted } as const;
  await insertBatch(trx, projectId, batch, stored, upload.now);
}

/** A line without a run. */
export interface SkippedLine {
  readonly ordinal: number;
  readonly agent_id: string;
}

/** Inserts rows for the agents of skipped lines; `commitPortion` adds the reasons. */
export async function insertSkippedLines(
  trx: Tx,
  projectId: string,
  batchId: string,
  lines: readonly SkippedLine[],
): Promise<void> {
  if (lines.length === 0) return;
  await sql`
    insert into batch_agent (batch_id, ordinal, agent_id, project_id)
    select ${batchId}::uuid, d.ordinal, d.agent_id, ${projectId}::uuid
      from ${unnestRows(lines, {
        ordinal: ['int', ({ ordinal }) => ordinal],
        agent_id: ['uuid', ({ agent_id }) => agent_id],
      })}
  `.execute(trx);
}
