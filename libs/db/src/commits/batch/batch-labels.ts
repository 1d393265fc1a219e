import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { lockBatchState } from '../../locks/batch/lock-batch.ts';
import { METADATA_LABELS_MAX, metadataLabel, tagLabel } from '../../reads/batch/labels.ts';

interface Labelled {
  readonly id: string;
  readonly tags?: readonly string[] | undefined;
  readonly metadata: object | null;
  readonly created_at: string;
}

/** Inserts the labels of a batch; most batches have none. */
export async function insertBatchLabels(trx: Tx, projectId: string, batch: Labelled): Promise<void> {
  const scalars = Object.entries(batch.metadata ?? {})
    .flatMap(([key, value]) => metadataLabel(key, value) ?? [])
    .slice(0, METADATA_LABELS_MAX);
  const labels = [...new Set([...(batch.tags ?? []).map(tagLabel), ...scalars])];
  if (labels.length === 0) return;
  await sql`
    insert into batch_label (project_id, label, created_at, batch_id)
    select ${projectId}::uuid, label, ${batch.created_at}::timestamptz, ${batch.id}::uuid
      from unnest(${labels}::text[]) as l(label)
  `.execute(trx);
}

/** A name and tags to set; null removes them, absent keeps them. */
export interface NameChange {
  readonly name?: string | null | undefined;
  readonly tags?: readonly string[] | null | undefined;
}

/** Sets the name and the tags of a batch in any state. Throws: `not_found`. Locks: the batch row. */
export async function renameBatch(
  trx: Tx,
  projectId: string,
  batchId: string,
  { name, tags }: NameChange,
): Promise<void> {
  await lockBatchState(trx, projectId, batchId);
  const { rows } = await sql<{ created_at: string }>`
    update batch set updated_at = ${NOW},
           name = case when ${name !== undefined} then ${name ?? null}::text else name end,
           tags = case when ${tags !== undefined} then ${[...(tags ?? [])]}::text[] else tags end
     where id = ${batchId}::uuid returning created_at::text as created_at
  `.execute(trx);
  const [batch] = rows;
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  if (tags === undefined) return;
  await sql`delete from batch_label where batch_id = ${batchId}::uuid and starts_with(label, 'tag ')`.execute(
    trx,
  );
  await insertBatchLabels(trx, projectId, { id: batchId, tags: tags ?? [], metadata: null, ...batch });
}
