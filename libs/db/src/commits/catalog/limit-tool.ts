import { NightshiftError } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';

/** Limits of a tool over all workers; null: none. */
export interface ToolLimits {
  /** Calls under way at a time. */
  readonly concurrency: number | null;
  /** Calls that start in a minute. */
  readonly rate_per_minute: number | null;
}

/**
 * Replaces the limits of a tool, for calls that start from now on, of open batches too.
 * Throws: `invalid_argument` for a tool whose calls no worker makes. Locks: its row. Index: primary key.
 */
export async function limitTool(trx: Tx, toolId: string, limits: ToolLimits): Promise<void> {
  const { concurrency, rate_per_minute } = limits;
  const { numUpdatedRows } = await trx
    .updateTable('tool')
    .set({ concurrency, rate_per_minute, updated_at: NOW })
    .where('id', '=', toolId)
    .where('kind', 'not in', ['memory', 'finish', 'client'])
    .executeTakeFirst();
  if (numUpdatedRows > 0n) return;
  const message = 'must be absent: the tool is built in, and its calls wait for nothing';
  throw new NightshiftError('invalid_argument', `/limits ${message}.`, {
    fields: [{ path: '/limits', message }],
  });
}
