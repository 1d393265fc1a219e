import { toStorableText, type ConflictPolicy } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { storableJson } from '../json-rows.ts';

/** The new content of a block. */
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
 * Writes a block as its next revision if its head is still `basedOn` (compare and set), and returns the new revision.
 * Returns null, and changes nothing, after another write or a deletion. A new label is copied to the agents that hold the
 * block; a unique constraint refuses it if one of them uses it. All of `content` is written, so a partial change needs the
 * block's lock (`lockBlock`) from its read on.
 * Locks: the block's row. Index: primary key.
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
 * Changes fields that no request shows, and the label, without a new revision if the head is still `basedOn`; returns
 * whether it did. Otherwise like {@link writeBlock}.
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
