import type { RunState, StopReason } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { refuseCursor } from '../keyset.ts';

/** An agent's change of a block in a batch under review: before and after all its calls. */
export interface HeldChangeRow {
  readonly draft_id: string;
  readonly agent_id: string;
  /** Null for a new block. */
  readonly block_id: string | null;
  readonly kind: 'revised' | 'created' | 'detached' | 'dropped';
  readonly state: 'held' | 'accepted' | 'rejected';
  readonly label: string;
  readonly label_before: string | null;
  readonly description: string | null;
  readonly description_before: string | null;
  readonly value: string;
  readonly value_before: string | null;
  readonly base_revision: number | null;
  readonly run_id: string;
  readonly custom_id: string | null;
  readonly run_state: RunState;
  readonly stop_reason: StopReason | null;
  readonly created_at: Date;
  readonly settled_at: Date | null;
}

/** Filters of a list of held changes; null does not filter. */
export interface HeldChangeFilter {
  readonly state: 'held' | 'accepted' | 'rejected' | null;
  readonly agent_id: string | null;
  readonly block_id: string | null;
}

/**
 * Reads a page of a batch's held changes, by draft id. Throws: `validation_failed` for a cursor that is none of them.
 * Index: `held_change_by_draft`, primary keys.
 */
export async function listHeldChanges(
  db: Database,
  batchId: string,
  page: {
    readonly limit: number;
    readonly order: 'asc' | 'desc';
    readonly after: string | null;
    readonly before: string | null;
  },
  filter: HeldChangeFilter,
): Promise<Listed<HeldChangeRow>> {
  await refuseOthers(db, batchId, page);
  const isAscending = page.order === 'asc';
  const readsAscending = page.before === null ? isAscending : !isAscending;
  const beyond = (id: string | null, greater: boolean) =>
    id === null ? sql`true` : sql`h.draft_id ${greater ? sql`>` : sql`<`} ${id}::uuid`;
  const { rows, is_cut } = await readCutPage<HeldChangeRow>(
    db,
    sql`
    select h.draft_id, h.agent_id, case when h.base_revision is not null then h.block_id end as block_id, h.kind, h.state,
           d.label, h.base_label as label_before, n.description, o.description as description_before, n.value,
           o.value as value_before, h.base_revision, h.run_id, r.custom_id, r.state as run_state, r.stop_reason, h.created_at,
           h.settled_at
      from held_change h
      join block d on d.id = h.draft_id
     cross join lateral (select custom_id, state, stop_reason from run where id = h.run_id ${UNMERGED}) r
      join block_revision n on n.block_id = d.id and n.revision = d.head_revision
      left join block_revision o on o.block_id = h.block_id and o.revision = h.base_revision
     where h.batch_id = ${batchId} and ${beyond(page.after, isAscending)} and ${beyond(page.before, !isAscending)}
       and ${filter.state === null ? sql`true` : sql`h.state = ${filter.state}`}
       and ${filter.agent_id === null ? sql`true` : sql`h.agent_id = ${filter.agent_id}::uuid`}
       and ${filter.block_id === null ? sql`true` : sql`h.block_id = ${filter.block_id}::uuid`}
     order by h.draft_id ${readsAscending ? sql`asc` : sql`desc`} limit ${page.limit}
  `,
    sql`octet_length(p.value) + coalesce(octet_length(p.value_before), 0)
      + octet_length(concat(p.description, p.description_before))`,
  );
  return { rows: readsAscending === isAscending ? rows : rows.toReversed(), is_cut };
}

/** Refuses a cursor that is no held change of the batch. */
async function refuseOthers(
  db: Database,
  batchId: string,
  page: { readonly after: string | null; readonly before: string | null },
): Promise<void> {
  for (const side of ['after', 'before'] as const) {
    const draftId = page[side];
    if (draftId === null) continue;
    const change = db.selectFrom('held_change').select('draft_id').where('draft_id', '=', draftId);
    const found = await change.where('batch_id', '=', batchId).executeTakeFirst();
    if (found === undefined) refuseCursor(side);
  }
}
