import { toStorableText, type ConflictPolicy } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { storableJson } from '../json-rows.ts';

/** A block as it is to be. */
export interface BlockContent {
  readonly label: string;
  readonly value: string;
  readonly description: string | null;
  readonly char_limit: number;
  readonly read_only: boolean;
  readonly conflict_policy: ConflictPolicy;
  readonly metadata: object;
  readonly tags: readonly string[];
  readonly is_template: boolean;
  readonly hidden: boolean;
}

/**
 * Writes a block as its next revision, if its present one is still `basedOn` (compare and set). Returns the new revision;
 * null, and changes nothing, when somebody else has written since or the block is gone. A new label follows to the agents
 * that hold the block; a unique constraint refuses it where one of them has that label already. All of `content` is written,
 * so who changes a part of it holds the block's lock (`lockBlock`) since reading the rest. Locks the block's row. Index: primary key.
 */
export async function writeBlock(
  trx: Tx,
  blockId: string,
  basedOn: number,
  content: BlockContent,
): Promise<number | null> {
  const { rows } = await sql<{ revision: number }>`
    with moved as (
      update block set head_revision = head_revision + 1, label = ${toStorableText(content.label)},
        conflict_policy = ${content.conflict_policy}, metadata = ${storableJson(content.metadata)}::json, tags = ${content.tags.map(toStorableText)}::text[],
        is_template = ${content.is_template}, hidden = ${content.hidden}, updated_at = app_now()
      where id = ${blockId} and head_revision = ${basedOn} and deleted_at is null
      returning id, project_id, head_revision
    )
    insert into block_revision (block_id, revision, project_id, description, value, char_limit, read_only, based_on)
    select id, head_revision, project_id, ${content.description === null ? null : toStorableText(content.description)},
      ${toStorableText(content.value)}, ${content.char_limit}, ${content.read_only}, ${basedOn}
    from moved
    returning revision
  `.execute(trx);
  return rows[0]?.revision ?? null;
}

/**
 * Changes what no request shows (and the label) without a new revision, if the present one is still `basedOn`. Returns
 * whether it did. Otherwise as {@link writeBlock}.
 */
export async function relabelBlock(
  trx: Tx,
  blockId: string,
  basedOn: number,
  content: BlockContent,
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('block')
    .set({
      label: toStorableText(content.label),
      conflict_policy: content.conflict_policy,
      metadata: storableJson(content.metadata),
      tags: content.tags.map(toStorableText),
      is_template: content.is_template,
      hidden: content.hidden,
      updated_at: NOW,
    })
    .where('id', '=', blockId)
    .where('head_revision', '=', basedOn)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}
