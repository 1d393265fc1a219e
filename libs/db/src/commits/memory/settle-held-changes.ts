import { NightshiftError, planAccept, type LabelInUse, type StaleReason } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../../connect.ts';
import { rejectCursorSpans } from '../cursor/revert-cursor-spans.ts';
import { chooseHeld, type ChosenChanges, type PassagesOf } from './choose-held.ts';
import { acceptPassages, countHeldPassages, deletePassages } from './passages.ts';
import { lockAgents } from '../../locks/catalog/lock-agent.ts';
import { lockBatchToSettle } from '../../locks/batch/lock-ended-batch.ts';
import { readLabelsBeside } from '../../reads/memory/labels-beside.ts';
import { uuidArray } from '../../uuid-array.ts';
import type { HeldRow, HeldSelection, NewText } from './held-row.ts';
import { resolveStale, type OnConflict } from './resolve-stale.ts';
import { assertOpen } from './settled-before.ts';

/** A held change that can no longer take effect. It stays held and may be rejected. */
export interface StaleChange {
  readonly agent_id: string;
  /** Null for a new block. */
  readonly block_id: string | null;
  readonly label: string;
  readonly reason: StaleReason;
}

export interface AcceptReport {
  readonly accepted: number;
  /** Passages of archival memory. */
  readonly passages: number;
  readonly stale: readonly StaleChange[];
}

export interface RejectReport {
  readonly rejected: number;
  /** Passages of archival memory. */
  readonly passages: number;
}

/** Most changes of a block, by different agents, that are rebased or forced in one accept. Each takes a round of statements. */
const ROUNDS_MAX = 100;

function toConditions(batchId: string, filter: ChosenChanges['filter']) {
  if ('draft_ids' in filter)
    return sql`h.batch_id = ${batchId} and h.state = 'held' and h.draft_id = any(${uuidArray(filter.draft_ids)}::uuid[])`;
  const { agent_ids, block_ids } = filter;
  return sql`h.batch_id = ${batchId} and h.state = 'held'
    and ${agent_ids === null ? sql`true` : sql`h.agent_id = any(${[...agent_ids]}::uuid[])`}
    and ${block_ids === null ? sql`true` : sql`h.block_id = any(${[...block_ids]}::uuid[])`}`;
}

/**
 * Accepts held changes of a batch: those whose block is unchanged since their base and still accepts them.
 * `onConflict` decides about changes whose block was edited, also after the selection. The others are reported and stay
 * held. Texts become revisions that name the writing call. Settled changes are skipped.
 * Throws: `not_found` for the batch, or for an id that is no agent, changed block or change of the batch; `conflict` for a
 * filter id whose changes were rejected; `batch_running` for a batch that has not ended, unless the filter names agents
 * whose runs have.
 * Locks: the batch, the agents, then the blocks, in id order. The number of statements is constant, with one round more for
 * each further agent whose change of the same block is rebased or forced.
 */
export async function acceptHeldChanges(
  trx: Tx,
  projectId: string,
  batchId: string,
  selection: HeldSelection,
  onConflict: OnConflict = { kind: 'fail' },
): Promise<AcceptReport> {
  await lockBatchToSettle(trx, projectId, batchId, selection.agent_ids);
  const { filter, passages } = await chooseHeld(trx, batchId, selection);
  await lockConcerned(trx, batchId, filter);
  const held = await readHeld(trx, batchId, filter);
  await assertNamesOfBatch(trx, batchId, selection, held);
  await assertOpen(trx, batchId, selection, 'rejected');
  const reasons = await judge(trx, held);
  await putInForce(
    trx,
    batchId,
    held.filter(({ draft_id }) => reasons.get(draft_id) === null),
  );
  const edited = held.filter(({ draft_id }) => reasons.get(draft_id) === 'edited');
  if (onConflict.kind !== 'fail') await acceptEdited(trx, batchId, edited, onConflict, reasons);
  const accepted = passages === null ? 0 : await acceptPassages(trx, batchId, ...agentsOf(passages));
  return toReport(held, reasons, accepted);
}

/**
 * Reports what {@link acceptHeldChanges} with `fail` would do now. Writes nothing and locks only the batch. Throws: the same.
 */
export async function planHeldAccept(
  trx: Tx,
  projectId: string,
  batchId: string,
  selection: HeldSelection,
): Promise<AcceptReport> {
  await lockBatchToSettle(trx, projectId, batchId, selection.agent_ids);
  const { filter, passages } = await chooseHeld(trx, batchId, selection);
  const held = await readHeld(trx, batchId, filter);
  await assertNamesOfBatch(trx, batchId, selection, held);
  await assertOpen(trx, batchId, selection, 'rejected');
  const found = passages === null ? 0 : await countHeldPassages(trx, batchId, ...agentsOf(passages));
  return toReport(held, await judge(trx, held), found);
}

async function judge(trx: Tx, held: readonly HeldRow[]): Promise<Map<string, StaleReason | null>> {
  const verdicts = planAccept(held, await readLabels(trx, held));
  return new Map(held.map(({ draft_id }, index) => [draft_id, verdicts[index] ?? null]));
}

function agentsOf({ agent_ids, except_agent_ids }: PassagesOf) {
  return [agent_ids, except_agent_ids] as const;
}

function toReport(
  held: readonly HeldRow[],
  reasons: ReadonlyMap<string, StaleReason | null>,
  passages: number,
): AcceptReport {
  return {
    accepted: [...reasons.values()].filter((reason) => reason === null).length,
    passages,
    stale: held.flatMap(({ draft_id, agent_id, block_id, label, kind }) => {
      const reason = reasons.get(draft_id) ?? null;
      if (reason === null) return [];
      return [{ agent_id, block_id: kind === 'created' ? null : block_id, label, reason }];
    }),
  };
}

/**
 * Rebases or forces `edited` changes, and updates their reasons. Changes of a block take turns, because each is the base of
 * the next. Beyond the last round they stay held.
 */
async function acceptEdited(
  trx: Tx,
  batchId: string,
  edited: readonly HeldRow[],
  onConflict: OnConflict,
  reasons: Map<string, StaleReason | null>,
): Promise<void> {
  const ofBlocks = [...Map.groupBy(edited, ({ block_id }) => block_id).values()];
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const draft_ids = ofBlocks.flatMap((changes) => changes[round]?.draft_id ?? []);
    if (draft_ids.length === 0) return;
    // Read anew: the changes before may have moved the blocks.
    const turn = await readHeld(trx, batchId, { draft_ids });
    const resolved = await resolveStale(trx, batchId, turn, onConflict);
    const changes = resolved.map(({ change }) => change);
    const verdicts = planAccept(changes, await readLabels(trx, changes));
    for (const [index, { draft_id }] of changes.entries()) reasons.set(draft_id, verdicts[index] ?? null);
    await putInForce(
      trx,
      batchId,
      changes.filter((_change, index) => verdicts[index] === null),
      new Map(resolved.map(({ change, text }) => [change.draft_id, text])),
    );
  }
}

/**
 * Puts changes in force that can take effect together, and settles them. `texts` replace texts of drafts, by draft id. The
 * caller holds their agents and blocks.
 */
export async function putInForce(
  trx: Tx,
  batchId: string,
  accepted: readonly HeldRow[],
  texts: ReadonlyMap<string, NewText> = new Map(),
): Promise<void> {
  await writeTexts(trx, batchId, accepted, texts);
  await moveLabels(trx, accepted);
  await detach(trx, accepted);
  await publishNewBlocks(trx, accepted);
  await noteEvents(trx, batchId, accepted);
  await settle(
    trx,
    batchId,
    accepted.map((change) => change.draft_id),
    'accepted',
  );
}

/**
 * Rejects held changes of a batch, and counts them; a dry run only counts them. Throws: like {@link acceptHeldChanges}.
 */
export async function rejectHeldChanges(
  trx: Tx,
  projectId: string,
  batchId: string,
  selection: HeldSelection,
  isDry = false,
): Promise<RejectReport> {
  await lockBatchToSettle(trx, projectId, batchId, selection.agent_ids);
  const { filter, passages } = await chooseHeld(trx, batchId, selection);
  const { rows } = await sql<{ draft_id: string; agent_id: string; block_id: string }>`
    select h.draft_id, h.agent_id, h.block_id from held_change h where ${toConditions(batchId, filter)}
  `.execute(trx);
  await assertNamesOfBatch(trx, batchId, selection, rows);
  await assertOpen(trx, batchId, selection, 'accepted');
  const rejected = rows.length;
  if (isDry)
    return {
      rejected,
      passages: passages === null ? 0 : await countHeldPassages(trx, batchId, ...agentsOf(passages)),
    };
  await settle(
    trx,
    batchId,
    rows.map((row) => row.draft_id),
    'rejected',
  );
  if (passages === null) return { rejected, passages: 0 };
  await rejectCursorSpans(trx, batchId, ...agentsOf(passages));
  return { rejected, passages: await deletePassages(trx, batchId, { held: true, ...passages }) };
}

/**
 * Checks the ids of a selection, so that a misspelt id is not taken for a settled change.
 * An agent is known by its runs, because rejected passages leave no trace. Only ids without a held change are looked up;
 * `except` makes the planner read the batch once, whatever the statistics.
 * Throws: `not_found` for ids without a run or change in the batch.
 * Index: `run_batch_id_ordinal_key`, keys of `held_change`.
 */
async function assertNamesOfBatch(
  trx: Tx,
  batchId: string,
  { agent_ids, block_ids, change_ids, except_ids }: HeldSelection,
  held: readonly { readonly agent_id: string; readonly block_id: string; readonly draft_id: string }[],
): Promise<void> {
  const drafts = {
    found: new Set(held.map((change) => change.draft_id)),
    known: sql`select draft_id from held_change where batch_id = ${batchId}`,
  };
  const agents = await readUnknown(trx, agent_ids ?? [], {
    found: new Set(held.map((change) => change.agent_id)),
    known: sql`select agent_id from run where batch_id = ${batchId}`,
  });
  const blocks = await readUnknown(trx, block_ids ?? [], {
    found: new Set(held.map((change) => change.block_id)),
    known: sql`select block_id from held_change where batch_id = ${batchId}`,
  });
  const changes = await readUnknown(trx, change_ids ?? [], drafts);
  const excepted = await readUnknown(trx, except_ids ?? [], drafts);
  const fields = [
    ...agents.map(({ id, index }) => ({
      path: `/agent_ids/${index}`,
      message: `job-${batchId} has no run of agent-${id}`,
    })),
    ...blocks.map(({ id, index }) => ({
      path: `/block_ids/${index}`,
      message: `job-${batchId} has held no change to block-${id}`,
    })),
    ...[
      ...changes.map((one) => ({ ...one, list: 'change_ids' })),
      ...excepted.map((one) => ({ ...one, list: 'except_ids' })),
    ].map(({ id, index, list }) => ({
      path: `/${list}/${index}`,
      message: `job-${batchId} has held no change block-${id}`,
    })),
  ];
  const [first] = fields;
  if (first === undefined) return;
  throw new NightshiftError('not_found', `${first.path}: ${first.message}. Nothing was settled.`, { fields });
}

/** Returns the ids, with their paths, that are neither in `found` nor returned by the query `known`. */
export async function readUnknown(
  trx: Tx,
  ids: readonly string[],
  { found, known }: { readonly found: ReadonlySet<string>; readonly known: RawBuilder<unknown> },
): Promise<readonly { readonly id: string; readonly index: number }[]> {
  const sought = ids.filter((id) => !found.has(id));
  if (sought.length === 0) return [];
  const { rows } = await sql<{ id: string }>`
    select id from unnest(${uuidArray(sought)}::uuid[]) as sought(id) except ${known}
  `.execute(trx);
  const unknown = new Set(rows.map((row) => row.id));
  return ids.flatMap((id, index) => (unknown.has(id) ? [{ id, index }] : []));
}

/** Locks the agents and blocks of held changes, each in id order. */
export async function lockConcerned(
  trx: Tx,
  batchId: string,
  filter: ChosenChanges['filter'],
): Promise<void> {
  const { rows } = await sql<{ agent_id: string }>`
    select distinct h.agent_id from held_change h where ${toConditions(batchId, filter)}
  `.execute(trx);
  await lockAgents(
    trx,
    rows.map((row) => row.agent_id),
  );
  await sql`
    select 1 from block where id in (select h.block_id from held_change h where ${toConditions(batchId, filter)})
     order by id for no key update
  `.execute(trx);
}

/** Reads held changes by agent, with what decides about them. Read after {@link lockConcerned}. */
export async function readHeld(
  trx: Tx,
  batchId: string,
  filter: ChosenChanges['filter'],
): Promise<readonly HeldRow[]> {
  const { rows } = await sql<HeldRow>`
    select h.agent_id, h.block_id, h.draft_id, h.kind, d.label, h.base_label,
           h.base_revision is not null and b.deleted_at is not null as is_deleted,
           h.base_revision is null or (head.value = base.value
             and head.description is not distinct from base.description and b.label = h.base_label) as is_unchanged,
           h.base_revision is not null and head.read_only as is_read_only,
           h.base_revision is not null and now.value <> base.value and char_length(now.value) > head.char_limit
             as is_over_limit,
           -- A copy without writes may still differ: it keeps the description of its own time.
           h.base_revision is not null and now.run_id is not null
             and (now.value <> base.value or now.description is distinct from base.description) as is_written,
           case when h.kind in ('detached', 'dropped') then 1
                when coalesce(base.value, '') = '' then 0
                else greatest(0, (char_length(base.value) - char_length(now.value))::float8 / char_length(base.value))
           end::float8 as shrinks_by
      from held_change h
      join block d on d.id = h.draft_id
      join block_revision now on now.block_id = d.id and now.revision = d.head_revision
      join block b on b.id = h.block_id
      join block_revision head on head.block_id = b.id and head.revision = b.head_revision
      left join block_revision base on base.block_id = b.id and base.revision = h.base_revision
     where ${toConditions(batchId, filter)}
     order by h.agent_id, h.draft_id
  `.execute(trx);
  return rows;
}

/** Reads all labels of the agents with these changes, and of the agents that share their blocks; none where no label moves. */
export async function readLabels(trx: Tx, held: readonly HeldRow[]): Promise<readonly LabelInUse[]> {
  if (held.every(({ kind, label, base_label }) => kind !== 'created' && label === base_label)) return [];
  const { rows: own } = await sql<{ agent_id: string; block_id: string; label: string }>`
    select agent_id, block_id, label from agent_block
     where agent_id = any(${[...new Set(held.map((change) => change.agent_id))]}::uuid[])
  `.execute(trx);
  const beside = await readLabelsBeside(
    trx,
    held.map((change) => change.block_id),
  );
  const all = new Map([...own, ...beside].map((used) => [`${used.agent_id}/${used.block_id}`, used]));
  return [...all.values()];
}

async function writeTexts(
  trx: Tx,
  batchId: string,
  accepted: readonly HeldRow[],
  texts: ReadonlyMap<string, NewText>,
): Promise<void> {
  const drafts = accepted.filter(({ kind, is_written }) => kind === 'revised' && is_written);
  if (drafts.length === 0) return;
  const payload = drafts.map(({ draft_id }) => {
    const { resolution = 'clean', merged = null } = texts.get(draft_id) ?? {};
    return { d: draft_id, r: resolution, m: merged !== null, v: merged?.value, s: merged?.description };
  });
  await sql`
    with moved as (
      update block b set head_revision = b.head_revision + 1, updated_at = app_now()
        from held_change h
        join json_to_recordset(${JSON.stringify(payload)}::json) as w(d uuid, r text, m bool, v text, s text) on w.d = h.draft_id
       where h.batch_id = ${batchId} and b.id = h.block_id
      returning b.id, b.head_revision, h.draft_id, h.base_revision, w.m, w.v, w.s,
                case when w.r = 'clean' and h.edited_at is not null then 'edited' else w.r end as r)
    insert into block_revision (block_id, revision, project_id, description, value, char_limit, read_only, based_on,
                                batch_id, run_id, step_number, tool_use_id, resolution)
    select m.id, m.head_revision, n.project_id, case when m.m then m.s else n.description end,
           case when m.m then m.v else n.value end, o.char_limit, o.read_only, m.base_revision, n.batch_id, n.run_id,
           n.step_number, n.tool_use_id, m.r
      from moved m
      join block d on d.id = m.draft_id
      join block_revision n on n.block_id = d.id and n.revision = d.head_revision
      join block_revision o on o.block_id = m.id and o.revision = m.head_revision - 1
  `.execute(trx);
}

async function moveLabels(trx: Tx, accepted: readonly HeldRow[]): Promise<void> {
  const payload = accepted
    .filter(({ kind, label, base_label }) => kind === 'revised' && label !== base_label)
    .map(({ block_id, label }) => ({ b: block_id, l: label }));
  if (payload.length === 0) return;
  await sql`set constraints agent_block_agent_id_label_key deferred`.execute(trx);
  await sql`
    update block b set label = d.l, updated_at = app_now()
      from json_to_recordset(${JSON.stringify(payload)}::json) as d(b uuid, l text) where b.id = d.b
  `.execute(trx);
}

async function detach(trx: Tx, accepted: readonly HeldRow[]): Promise<void> {
  const payload = accepted
    .filter(({ kind }) => kind === 'detached')
    .map(({ agent_id, block_id }) => ({ a: agent_id, b: block_id }));
  if (payload.length === 0) return;
  await sql`
    delete from agent_block k using json_to_recordset(${JSON.stringify(payload)}::json) as d(a uuid, b uuid)
     where k.agent_id = d.a and k.block_id = d.b
  `.execute(trx);
}

/** Makes new blocks visible and attaches them to their agents, except deleted agents. */
async function publishNewBlocks(trx: Tx, accepted: readonly HeldRow[]): Promise<void> {
  const payload = accepted
    .filter(({ kind }) => kind === 'created')
    .map(({ agent_id, block_id }, n) => ({ a: agent_id, b: block_id, n }));
  if (payload.length === 0) return;
  const json = JSON.stringify(payload);
  await sql`
    update block b set deleted_at = null, held_by_batch_id = null, updated_at = app_now()
      from json_to_recordset(${json}::json) as d(b uuid) where b.id = d.b
  `.execute(trx);
  await sql`
    insert into agent_block (agent_id, block_id, label, project_id, position)
    select d.a, b.id, b.label, b.project_id,
           d.n + coalesce((select max(k.position) + 1 from agent_block k where k.agent_id = d.a), 0)
      from json_to_recordset(${json}::json) as d(a uuid, b uuid, n int) join block b on b.id = d.b
      join agent a on a.id = d.a and a.deleted_at is null
  `.execute(trx);
}

/** Records the changes as events, so that lists and reverts find them like those of any other batch. */
async function noteEvents(trx: Tx, batchId: string, accepted: readonly HeldRow[]): Promise<void> {
  const draftIds = accepted
    .filter(
      ({ kind, label, base_label }) =>
        kind === 'created' || kind === 'detached' || (kind === 'revised' && label !== base_label),
    )
    .map((change) => change.draft_id);
  if (draftIds.length === 0) return;
  await sql`
    insert into block_event (project_id, block_id, agent_id, kind, label, new_label, batch_id, run_id, step_number, place,
                             tool_use_id)
    select h.project_id, h.block_id, h.agent_id, case h.kind when 'revised' then 'renamed' else h.kind end,
           coalesce(h.base_label, d.label), case h.kind when 'revised' then d.label end, h.batch_id, h.run_id, h.step_number,
           row_number() over (partition by h.run_id, h.step_number order by h.draft_id)
             + coalesce((select max(e.place) from block_event e
                          where e.run_id = h.run_id and e.step_number = h.step_number), -1), h.tool_use_id
      from held_change h join block d on d.id = h.draft_id
     where h.batch_id = ${batchId} and h.draft_id = any(${draftIds}::uuid[])
  `.execute(trx);
}

async function settle(
  trx: Tx,
  batchId: string,
  draftIds: readonly string[],
  state: 'accepted' | 'rejected',
): Promise<void> {
  if (draftIds.length === 0) return;
  await sql`
    update held_change set state = ${state}, settled_at = app_now()
     where batch_id = ${batchId} and draft_id = any(${[...draftIds]}::uuid[]) and state = 'held'
  `.execute(trx);
}
