import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { lockBatchState } from '../../locks/batch/lock-batch.ts';
import { METADATA_LABELS_MAX, metadataLabel, tagLabel } from '../../reads/batch/labels.ts';

interface Labelled {
  readonly id: string;
  readonly tags?: readonly string[];
  readonly metadata: object | null;
}

/** Inserts the labels of a stored batch; most batches have none. */
export async function insertBatchLabels(trx: Tx, { id, tags = [], metadata }: Labelled): Promise<void> {
  const scalars = Object.entries(metadata ?? {})
    .flatMap(([key, value]) => metadataLabel(key, value) ?? [])
    .slice(0, METADATA_LABELS_MAX);
  const labels = [...new Set([...tags.map(tagLabel), ...scalars])];
  if (labels.length === 0) return;
  await sql`
    insert into batch_label (project_id, label, created_at, batch_id)
    select b.project_id, l.label, b.created_at, b.id from batch b cross join unnest(${labels}::text[]) as l(label)
     where b.id = ${id}::uuid
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
  await sql`
    update batch set updated_at = ${NOW},
           name = case when ${name !== undefined} then ${name ?? null}::text else name end,
           tags = case when ${tags !== undefined} then ${[...(tags ?? [])]}::text[] else tags end
     where id = ${batchId}::uuid
  `.execute(trx);
  if (tags === undefined) return;
  await sql`delete from batch_label where batch_id = ${batchId}::uuid and starts_with(label, 'tag ')`.execute(
    trx,
  );
  await insertBatchLabels(trx, { id: batchId, tags: tags ?? [], metadata: null });
}
