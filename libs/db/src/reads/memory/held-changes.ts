import { NightshiftError, type RunState, type StopReason } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { refuseCursor } from '../keyset.ts';
import {
  CHANGE_GROUP,
  HELD_JOINS,
  HELD_ROWS,
  isListed,
  RISK_PLACE,
  STALE_REASON,
  type HeldChangeFilter,
  type StandingReason,
} from './held-conditions.ts';

/** An agent's change of a block in a batch under review: before and after all its calls. */
export interface HeldChangeRow {
  readonly draft_id: string;
  readonly agent_id: string;
  readonly agent_name: string;
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
  readonly edited_at: Date | null;
  readonly change_group: string;
  readonly stale_reason: StandingReason | null;
  /** The present state of the block; null for a new block. */
  readonly head_revision: number | null;
  readonly head_batch_id: string | null;
  readonly head_run_id: string | null;
  readonly head_created_at: Date | null;
  /** Null without the texts of the present, and for a new or deleted block. */
  readonly value_now: string | null;
  /** The place in the order of risk; null in other orders. */
  readonly risk_place: number | null;
}

/** A place in a list of held changes. */
export interface HeldCursor {
  readonly draft_id: string;
  /** The place in the order of risk when the cursor was made; null: its present place. */
  readonly risk_place: number | null;
}

/** A page of held changes. */
export interface HeldPage {
  readonly limit: number;
  /** `risk`: riskiest first, whatever the order. */
  readonly sort: 'created_at' | 'risk';
  readonly order: 'asc' | 'desc';
  readonly after: HeldCursor | null;
  readonly before: HeldCursor | null;
  /** Whether rows have the present texts. */
  readonly with_present: boolean;
}

/**
 * Reads a page of a batch's held changes, by draft id or by risk. A cursor with a place of risk stands there even if its
 * change has moved since: every change whose own risk stays the same is listed once.
 * Throws: `validation_failed` for a cursor that is none of them.
 * Index: `held_change_by_draft`, primary keys. Filters and risk read the changes of the batch one by one.
 */
export async function listHeldChanges(
  db: Database,
  batchId: string,
  page: HeldPage,
  filter: HeldChangeFilter,
): Promise<Listed<HeldChangeRow>> {
  const isRisk = page.sort === 'risk';
  const isAscending = isRisk || page.order === 'asc';
  const readsAscending = page.before === null ? isAscending : !isAscending;
  const direction = readsAscending ? sql`asc` : sql`desc`;
  const key = isRisk ? sql`(f.risk_place, f.draft_id)` : sql`h.draft_id`;
  const beyond = async (side: 'after' | 'before', greater: boolean) => {
    const cursor = page[side];
    if (cursor === null) return sql`true`;
    const place = await findPlace(db, batchId, side, cursor, isRisk);
    const bound = isRisk ? sql`(${place}::float8, ${cursor.draft_id}::uuid)` : sql`${cursor.draft_id}::uuid`;
    return sql`${key} ${greater ? sql`>` : sql`<`} ${bound}`;
  };
  const isOnPage = sql`${await beyond('after', isAscending)} and ${await beyond('before', !isAscending)}`;
  const orderBy = sql`${isRisk ? sql`risk_place ${direction},` : sql``} draft_id ${direction}`;
  const places = isRisk
    ? sql`select draft_id, risk_place from (
            select h.draft_id, ${RISK_PLACE} as risk_place from ${HELD_ROWS} where ${isListed(batchId, filter)} ${UNMERGED}) f
           where ${isOnPage}`
    : sql`select h.draft_id, null::float8 as risk_place from ${HELD_ROWS} where ${isListed(batchId, filter)} and ${isOnPage}`;
  // The page first: other columns are computed for its rows alone.
  const { rows, is_cut } = await readCutPage<HeldChangeRow>(
    db,
    sql`
    select ${columns(page.with_present)}, k.risk_place
      from (${places} order by ${orderBy} limit ${page.limit}) k
     cross join lateral (
       select * from held_change where batch_id = ${batchId} and draft_id = k.draft_id ${UNMERGED}) h
      ${HELD_JOINS}
     order by ${isRisk ? sql`k.risk_place ${direction},` : sql``} k.draft_id ${direction}
  `,
    sql`octet_length(p.value) + coalesce(octet_length(p.value_before), 0)
      + octet_length(concat(p.value_now, p.description, p.description_before))`,
  );
  return { rows: readsAscending === isAscending ? rows : rows.toReversed(), is_cut };
}

/** Reads a held change with its present text. Throws: `not_found`. Index: `held_change_by_draft`, primary keys. */
export async function readHeldChange(db: Database, batchId: string, draftId: string): Promise<HeldChangeRow> {
  const { rows } = await sql<HeldChangeRow>`
    select ${columns(true)}, null::float8 as risk_place from ${HELD_ROWS}
     where h.batch_id = ${batchId} and h.draft_id = ${draftId}::uuid
  `.execute(db);
  const [row] = rows;
  if (row === undefined)
    throw new NightshiftError('not_found', `job-${batchId} has held no change block-${draftId}.`);
  return row;
}

function columns(withPresent: boolean): RawBuilder<unknown> {
  return sql`h.draft_id, h.agent_id, a.name as agent_name, h.kind, h.state,
           case when h.base_revision is not null then h.block_id end as block_id, d.label, h.base_label as label_before, n.description, o.description as description_before, n.value,
           o.value as value_before, h.base_revision, h.run_id, r.custom_id, r.state as run_state, r.stop_reason, h.created_at,
           h.settled_at, h.edited_at, ${CHANGE_GROUP} as change_group, ${STALE_REASON} as stale_reason,
           b.head_revision, c.batch_id as head_batch_id, c.run_id as head_run_id, c.created_at as head_created_at,
           ${withPresent ? sql`case when b.deleted_at is null then c.value end` : sql`null::text`} as value_now`;
}

/** Returns the place of a cursor in the order of risk. Refuses a cursor that is no held change of the batch. */
async function findPlace(
  db: Database,
  batchId: string,
  side: 'after' | 'before',
  cursor: HeldCursor,
  isRisk: boolean,
): Promise<number> {
  const { rows } = await sql<{ place: number }>`
    select ${isRisk && cursor.risk_place === null ? RISK_PLACE : sql`0::float8`} as place from ${HELD_ROWS}
     where h.batch_id = ${batchId} and h.draft_id = ${cursor.draft_id}::uuid
  `.execute(db);
  const place = rows[0]?.place ?? refuseCursor(side);
  return cursor.risk_place ?? place;
}
