import { CONFLICT_POLICY_DEFAULT, toStorableText, type ConflictPolicy } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { jsonRowChunks, storableJson } from '../json-rows.ts';

/** A block to store, as its first revision. */
export interface NewBlock {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  readonly description: string | null;
  /** Maximum code points of the value. */
  readonly char_limit: number;
  readonly read_only: boolean;
  /** Handling of conflicting writes. Default: `merge`. */
  readonly conflict_policy?: ConflictPolicy;
  readonly metadata: object;
  readonly tags: readonly string[];
  readonly is_template: boolean;
  readonly hidden: boolean;
}

/** Stores blocks, each with its revision 1, in two statements per chunk of rows. Inserts only. */
export async function createBlocks(trx: Tx, projectId: string, blocks: readonly NewBlock[]): Promise<void> {
  const rows = blocks.map((block) => ({
    ...block,
    conflict_policy: block.conflict_policy ?? CONFLICT_POLICY_DEFAULT,
    label: toStorableText(block.label),
    value: toStorableText(block.value),
    description: block.description === null ? null : toStorableText(block.description),
    metadata: storableJson(block.metadata),
    tags: block.tags.map(toStorableText),
  }));
  for (const { json } of jsonRowChunks(rows)) {
    await sql`
      insert into block (id, project_id, label, head_revision, conflict_policy, metadata, tags, is_template, hidden)
      select id, ${projectId}::uuid, label, 1, conflict_policy, metadata::json, tags, is_template, hidden
      from json_to_recordset(${json}::json)
        as r (id uuid, label text, conflict_policy text, metadata text, tags text[], is_template boolean, hidden boolean)
    `.execute(trx);
    await sql`
      insert into block_revision (block_id, revision, project_id, description, value, char_limit, read_only)
      select id, 1, ${projectId}::uuid, description, value, char_limit, read_only
      from json_to_recordset(${json}::json)
        as r (id uuid, description text, value text, char_limit integer, read_only boolean)
    `.execute(trx);
  }
}
