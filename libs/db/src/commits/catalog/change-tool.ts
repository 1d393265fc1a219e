import { NightshiftError, toStorableText } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { storableJson } from '../json-rows.ts';

/** What a caller may change of a tool whose code and text are not theirs; null leaves it. */
export interface ToolChange {
  readonly return_char_limit: number | null;
  readonly requires_approval: boolean | null;
  readonly tags: readonly string[] | null;
  readonly metadata: object | null;
}

/** Changes a tool, for batches accepted from now on. Locks its row. Throws `not_found`. Index: primary key. */
export async function changeTool(
  trx: Tx,
  projectId: string,
  toolId: string,
  change: ToolChange,
): Promise<void> {
  const { numAffectedRows } = await sql`
    update tool set
      return_char_limit = coalesce(${change.return_char_limit}::integer, return_char_limit),
      requires_approval = coalesce(${change.requires_approval}::boolean, requires_approval),
      tags = coalesce(${change.tags === null ? null : change.tags.map(toStorableText)}::text[], tags),
      metadata = coalesce(${change.metadata === null ? null : storableJson(change.metadata)}::json, metadata),
      updated_at = app_now()
    where id = ${toolId} and project_id = ${projectId}
  `.execute(trx);
  if (Number(numAffectedRows) === 0) {
    throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
  }
}

/**
 * Deletes a tool and takes it from every agent; runs under way keep it in their definition. A built-in or module tool comes
 * back when it is next registered. Throws `not_found`. Index: primary key, `agent_tool_by_tool`.
 */
export async function deleteTool(trx: Tx, projectId: string, toolId: string): Promise<void> {
  const { numAffectedRows } = await sql`
    delete from tool where id = ${toolId} and project_id = ${projectId}
  `.execute(trx);
  if (Number(numAffectedRows) === 0) {
    throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
  }
}
