import { NightshiftError, toStorableText } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { storableJson } from '../json-rows.ts';
import { deleteListedItem } from './deleted-item.ts';

/** The changeable fields of a tool whose code and text are not the caller's; null keeps a field. */
export interface ToolChange {
  readonly return_char_limit: number | null;
  readonly requires_approval: boolean | null;
  readonly tags: readonly string[] | null;
  readonly metadata: object | null;
}

/** Changes a tool for batches accepted from now on. Throws: `not_found`. Locks: its row. Index: primary key. */
export async function changeTool(
  trx: Tx,
  projectId: string,
  toolId: string,
  change: ToolChange,
): Promise<void> {
  const { return_char_limit, requires_approval, tags, metadata } = change;
  const { numUpdatedRows } = await trx
    .updateTable('tool')
    .set({
      ...(return_char_limit === null ? {} : { return_char_limit }),
      ...(requires_approval === null ? {} : { requires_approval }),
      ...(tags === null ? {} : { tags: tags.map(toStorableText) }),
      ...(metadata === null ? {} : { metadata: storableJson(metadata) }),
      updated_at: NOW,
    })
    .where('id', '=', toolId)
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
}

/**
 * Deletes a tool and detaches it from every agent; open runs keep it in their definition. A built-in or module tool returns
 * when it is registered again.
 * Throws: `not_found`. Index: primary key, `agent_tool_by_tool`.
 */
export async function deleteTool(trx: Tx, projectId: string, toolId: string): Promise<void> {
  if (!(await deleteListedItem(trx, 'tool', projectId, toolId)))
    throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
}
