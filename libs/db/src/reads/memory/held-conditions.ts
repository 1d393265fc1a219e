import {
  ENDED_RUN_STATES,
  SHRINK_POLICY_DEFAULT,
  type RunState,
  type StaleReason,
  type StopReason,
} from '@nightshift/agent-core';
import { sql, type RawBuilder, type SqlBool } from 'kysely';
import { anyText, anyUuid, UNMERGED } from '../../fragments.ts';
import { containsText } from '../contains-text.ts';

/** Why a held change cannot take effect, as far as its own rows tell; a clash of labels shows only in an accept. */
export type StandingReason = Exclude<StaleReason, 'label_taken'>;

/** Selects held changes by their properties; null does not filter. */
export interface HeldChoice {
  readonly state: 'held' | 'accepted' | 'rejected' | null;
  readonly label: string | null;
  readonly shrunk: boolean | null;
  readonly stale: boolean | null;
  readonly run_state: RunState | null;
  readonly stop_reason: StopReason | null;
  /** A part of the label, of the agent's name or of the proposed text, case-insensitive. */
  readonly text: string | null;
  /** The hash of equal changes. */
  readonly change_group: string | null;
}

/** Filters of a list of held changes; null does not filter. */
export interface HeldChangeFilter extends HeldChoice {
  readonly agent_id: string | null;
  readonly block_id: string | null;
}

/** The choice of all changes. */
export const EVERY_CHANGE: HeldChoice = {
  state: null,
  label: null,
  shrunk: null,
  stale: null,
  run_state: null,
  stop_reason: null,
  text: null,
  change_group: null,
};

/**
 * Joins to held changes `h`: draft `d` with its text `n`, base text `o`, block `b` with its present text `c`, run `r`,
 * agent `a`, and lengths `z`. Each is read by its key, and computed if it is used. Index: primary keys.
 */
export const HELD_JOINS = sql`
  join lateral (select * from block where id = h.draft_id ${UNMERGED}) d on true
  join lateral (select custom_id, state, stop_reason from run where id = h.run_id ${UNMERGED}) r on true
  join lateral (select * from block_revision where block_id = d.id and revision = d.head_revision ${UNMERGED}) n on true
  left join lateral (
    select * from block_revision where block_id = h.block_id and revision = h.base_revision ${UNMERGED}) o on true
  left join lateral (select * from block where id = h.block_id and h.base_revision is not null ${UNMERGED}) b on true
  left join lateral (
    select * from block_revision where block_id = b.id and revision = b.head_revision ${UNMERGED}) c on true
  left join lateral (select name from agent where id = h.agent_id ${UNMERGED}) a on true
  cross join lateral (select char_length(o.value) as before, char_length(n.value) as after ${UNMERGED}) z`;

/** Held changes with {@link HELD_JOINS}. */
export const HELD_ROWS = sql`held_change h ${HELD_JOINS}`;

/** The reason why an accept would refuse the change, or null. Judges like `readHeld` and `planAccept`. */
export const STALE_REASON = sql<StandingReason | null>`case
  when h.state <> 'held' or h.base_revision is null then null
  when b.deleted_at is not null then 'deleted'
  when b.label <> h.base_label or (b.head_revision <> h.base_revision
    and (c.value <> o.value or c.description is distinct from o.description)) then 'edited'
  when c.read_only then 'read_only'
  when z.after > c.char_limit and n.value <> o.value then 'over_limit' end`;

const { loss_ratio, chars_min } = SHRINK_POLICY_DEFAULT;

/** Like `isShrinkAlarm`. */
export const IS_SHRUNK = sql<boolean>`coalesce(h.kind = 'revised' and z.before >= ${chars_min}
  and z.before - z.after >= z.before * ${loss_ratio}::float8, false)`;

const FAILED = ENDED_RUN_STATES.filter((state) => state !== 'completed');

/**
 * The place of a change in the order of risk, ascending: stale changes first, then those of runs that did not complete,
 * then shrunk ones, then the most characters removed. Whole numbers below 2^53.
 */
export const RISK_PLACE = sql<number>`(- (
  4294967296 * (4 * (${STALE_REASON} is not null)::int + 2 * (r.state = ${anyText(FAILED)})::int
                + ${IS_SHRUNK}::int)
  + case h.kind when 'detached' then z.before
                when 'revised' then greatest(0, z.before - z.after) else 0 end))::float8`;

/** A hash that equal changes share: the same kind, labels, descriptions and texts before and after. */
export const CHANGE_GROUP = sql<string>`md5(
  json_build_array(h.kind, h.base_label, d.label, o.description,
    case when h.kind in ('revised', 'created') then n.description end, md5(o.value),
    case when h.kind in ('revised', 'created') then md5(n.value) end)::text)`;

/** The condition of a choice on {@link HELD_ROWS}. */
export function isChosen(choice: HeldChoice): RawBuilder<SqlBool> {
  const { state, label, shrunk, stale, run_state, stop_reason, text, change_group } = choice;
  const conditions = [
    state === null ? [] : sql`h.state = ${state}`,
    label === null ? [] : sql`d.label = ${label}`,
    run_state === null ? [] : sql`r.state = ${run_state}`,
    stop_reason === null ? [] : sql`r.stop_reason = ${stop_reason}`,
    shrunk === null ? [] : sql`${IS_SHRUNK} = ${shrunk}`,
    stale === null ? [] : sql`(${STALE_REASON} is not null) = ${stale}`,
    text === null
      ? []
      : sql`(${containsText('d.label', text)} or ${containsText('a.name', text)} or ${containsText('n.value', text)})`,
    change_group === null ? [] : sql`${CHANGE_GROUP} = ${change_group}`,
  ].flat();
  return conditions.length === 0 ? sql`true` : sql.join(conditions, sql` and `);
}

/** The condition of a list of a batch's held changes, on {@link HELD_ROWS}. */
export function isListed(batchId: string, filter: HeldChangeFilter): RawBuilder<SqlBool> {
  const { agent_id, block_id } = filter;
  return sql`h.batch_id = ${batchId} and ${agent_id === null ? sql`true` : sql`h.agent_id = ${agent_id}::uuid`}
    and ${block_id === null ? sql`true` : sql`h.block_id = ${block_id}::uuid`} and ${isChosen(filter)}`;
}

/** The condition of lists of ids on `h`; null does not filter. */
export function isNamed(names: {
  readonly agent_ids: readonly string[] | null;
  readonly block_ids: readonly string[] | null;
  readonly change_ids: readonly string[] | null;
  readonly except_ids: readonly string[] | null;
}): RawBuilder<SqlBool> {
  const { agent_ids, block_ids, change_ids, except_ids } = names;
  return sql`${agent_ids === null ? sql`true` : sql`h.agent_id = ${anyUuid(agent_ids)}`}
    and ${block_ids === null ? sql`true` : sql`h.block_id = ${anyUuid(block_ids)}`}
    and ${change_ids === null ? sql`true` : sql`h.draft_id = ${anyUuid(change_ids)}`}
    and ${except_ids === null ? sql`true` : sql`not h.draft_id = ${anyUuid(except_ids)}`}`;
}
