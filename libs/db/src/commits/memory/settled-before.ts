import { NightshiftError, type FieldError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';
import type { HeldFilter } from './held-row.ts';

interface SettledRow {
  readonly agent_id: string;
  readonly block_id: string;
  readonly label: string;
  readonly is_opposite: boolean;
  readonly settled_at: Date | null;
}

/**
 * Refuses a filter with an id whose changes were all settled the other way.
 * Throws: `conflict` with the ids, and when each was settled. Index: primary key of `held_change`.
 */
export async function assertOpen(
  trx: Tx,
  batchId: string,
  { agent_ids, block_ids }: HeldFilter,
  opposite: 'accepted' | 'rejected',
): Promise<void> {
  if (agent_ids === null && block_ids === null) return;
  const { rows } = await sql<SettledRow>`
    select h.agent_id, h.block_id, d.label, h.state = ${opposite} as is_opposite, h.settled_at
      from held_change h join block d on d.id = h.draft_id
     where h.batch_id = ${batchId}
       and ${agent_ids === null ? sql`true` : sql`h.agent_id = any(${uuidArray(agent_ids)}::uuid[])`}
       and ${block_ids === null ? sql`true` : sql`h.block_id = any(${uuidArray(block_ids)}::uuid[])`}
     order by h.settled_at, h.draft_id
  `.execute(trx);
  const fields = [
    ...refusals(
      agent_ids ?? [],
      '/agent_ids',
      Map.groupBy(rows, (row) => row.agent_id),
      opposite,
    ),
    ...refusals(
      block_ids ?? [],
      '/block_ids',
      Map.groupBy(rows, (row) => row.block_id),
      opposite,
    ),
  ];
  const [first] = fields;
  if (first === undefined) return;
  const advice =
    opposite === 'accepted' ? 'A revert takes accepted changes back.' : 'A rejected change is gone.';
  throw new NightshiftError('conflict', `${first.path}: ${first.message}. ${advice} Nothing was settled.`, {
    fields,
  });
}

function refusals(
  ids: readonly string[],
  list: string,
  rowsOf: ReadonlyMap<string, readonly SettledRow[]>,
  opposite: string,
): readonly FieldError[] {
  return ids.flatMap((id, index) => {
    const rows = rowsOf.get(id) ?? [];
    const last = rows.at(-1);
    if (last === undefined || !rows.every(({ is_opposite }) => is_opposite)) return [];
    const when = last.settled_at?.toISOString() ?? '';
    const what =
      rows.length === 1
        ? `the change of agent-${last.agent_id} to '${last.label}' was ${opposite} at ${when}`
        : `all ${rows.length} changes were ${opposite}, the last at ${when}`;
    return [{ path: `${list}/${index}`, message: what }];
  });
}
