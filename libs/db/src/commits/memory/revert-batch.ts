import {
  decideRevert,
  NightshiftError,
  refuseClashes,
  type LabelInUse,
  type RevertFacts,
} from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../../connect.ts';
import { revertCursorSpans } from '../cursor/revert-cursor-spans.ts';
import type { HeldFilter } from './held-row.ts';
import { deletePassages } from './passages.ts';
import { readUnknown } from './settle-held-changes.ts';
import { uuidArray } from '../../uuid-array.ts';
import { lockAgents } from '../../locks/catalog/lock-agent.ts';
import { lockEndedBatch } from '../../locks/batch/lock-ended-batch.ts';
import { readLabelsBeside } from '../../reads/memory/labels-beside.ts';

/** The reason why a change was not reverted. */
export type RevertRefusal = 'edited' | 'deleted' | 'label_taken';

export interface RevertedBlock {
  readonly block_id: string;
  readonly label: string;
}

/** The result of a revert. Blocks that already had their content from before the batch are in no list. */
export interface RevertReport {
  /** Blocks with their content from before the batch. */
  readonly restored: readonly RevertedBlock[];
  /** Deleted blocks, which the batch had created. */
  readonly deleted: readonly RevertedBlock[];
  /** Blocks whose edits or labels by other writers were overwritten, each once, with the overwritten label. */
  readonly forced: readonly RevertedBlock[];
  readonly renamed: readonly RevertedBlock[];
  /** Blocks attached again to agents that had detached them. */
  readonly attached: readonly (RevertedBlock & { readonly agent_id: string })[];
  /** Unchanged blocks, each once per reason. */
  readonly refused: readonly (RevertedBlock & { readonly reason: RevertRefusal })[];
  /** Number of deleted passages of archival memory. */
  readonly passages: number;
}

interface WrittenBlock extends RevertFacts, RevertedBlock {}

/**
 * Reverts the block changes of a batch, or those by some agents or to some blocks: texts, labels, new and detached blocks.
 * A block is refused and reported, with its label, if another write followed the batch's or came between its writes; so is
 * a label that other writers changed. `force` overwrites them. Texts return as new revisions, so that a revert can be
 * reverted. Held changes stay held. Writes of the batch's other agents count as writes of others. A filter by block leaves
 * archival memory alone.
 * Messages that its runs handled under a cursor are new again.
 * Throws: `not_found` for the batch, or for a filter id that has no run or no change in it; `batch_running` for a batch that has not ended.
 * Locks: the batch, then the agents and the blocks concerned, in id order. The number of statements is constant.
 * Index: `block_revision_by_batch`, `block_event_by_batch`.
 */
export async function revertBatch(
  trx: Tx,
  projectId: string,
  batchId: string,
  force: boolean,
  filter: HeldFilter = { agent_ids: null, block_ids: null },
): Promise<RevertReport> {
  await lockEndedBatch(trx, projectId, batchId);
  await assertChanged(trx, batchId, filter);
  const scope = { writes: writesOf(batchId, filter), events: eventsOf(batchId, filter) };
  await lockConcerned(trx, scope);
  const written = await readWritten(trx, batchId, scope);
  const decided = written.map((block) => ({ block, decision: decideRevert(block, force) }));
  const named = ({ block_id, label }: RevertedBlock): RevertedBlock => ({ block_id, label });

  const restored = decided.flatMap(({ block, decision }) =>
    decision.kind === 'restore' ? [{ ...named(block), revision: decision.revision }] : [],
  );
  const deleted = decided.flatMap(({ block, decision }) =>
    decision.kind === 'delete' ? [named(block)] : [],
  );
  const forced = decided.flatMap(({ block, decision }) =>
    'forced' in decision && decision.forced ? [named(block)] : [],
  );
  const edited = decided.flatMap(({ block, decision }) =>
    decision.kind === 'refuse' ? [{ ...named(block), reason: decision.reason }] : [],
  );
  if (restored.length > 0) await restore(trx, restored);
  if (deleted.length > 0) await remove(trx, deleted);
  const labels = await renameBack(trx, scope, new Set(edited.map(({ block_id }) => block_id)), force);
  const attachments = await attachAgain(trx, batchId, scope);
  await revertCursorSpans(
    trx,
    batchId,
    [...restored, ...deleted, ...labels.renamed, ...attachments.attached].map(({ block_id }) => block_id),
    filter,
  );
  const passages =
    filter.block_ids === null
      ? await deletePassages(trx, batchId, { held: false, agent_ids: filter.agent_ids })
      : 0;
  return {
    passages,
    restored: restored.map(named),
    deleted,
    forced: distinctBy([...forced, ...labels.forced], ({ block_id }) => block_id),
    renamed: labels.renamed,
    attached: attachments.attached,
    refused: distinctBy(
      [...edited, ...labels.refused, ...attachments.refused],
      ({ block_id, reason }) => `${block_id}/${reason}`,
    ),
  };
}

/** The batch's revisions, alias `w`, and events, alias `e`, that a revert takes back. */
interface Scope {
  readonly writes: RawBuilder<unknown>;
  readonly events: RawBuilder<unknown>;
}

function writesOf(batchId: string, { agent_ids, block_ids }: HeldFilter): RawBuilder<unknown> {
  const ofAgents =
    agent_ids === null
      ? sql`true`
      : sql`w.run_id in (select id from run where batch_id = ${batchId} and agent_id = any(${uuidArray(agent_ids)}::uuid[]))`;
  const ofBlocks = block_ids === null ? sql`true` : sql`w.block_id = any(${uuidArray(block_ids)}::uuid[])`;
  return sql`w.batch_id = ${batchId} and ${ofAgents} and ${ofBlocks}`;
}

function eventsOf(batchId: string, { agent_ids, block_ids }: HeldFilter): RawBuilder<unknown> {
  const ofAgents = agent_ids === null ? sql`true` : sql`e.agent_id = any(${uuidArray(agent_ids)}::uuid[])`;
  const ofBlocks = block_ids === null ? sql`true` : sql`e.block_id = any(${uuidArray(block_ids)}::uuid[])`;
  return sql`e.batch_id = ${batchId} and ${ofAgents} and ${ofBlocks}`;
}

/** Refuses filter ids without a run or a change in the batch. Throws: `not_found`. */
async function assertChanged(trx: Tx, batchId: string, { agent_ids, block_ids }: HeldFilter): Promise<void> {
  const agents = await readUnknown(trx, agent_ids ?? [], {
    found: new Set(),
    known: sql`select agent_id from run where batch_id = ${batchId}`,
  });
  const blocks = await readUnknown(trx, block_ids ?? [], {
    found: new Set(),
    known: sql`(select block_id from block_revision where batch_id = ${batchId}
                union select block_id from block_event where batch_id = ${batchId})`,
  });
  const fields = [
    ...agents.map(({ id, index }) => ({
      path: `/agent_ids/${index}`,
      message: `job-${batchId} has no run of agent-${id}`,
    })),
    ...blocks.map(({ id, index }) => ({
      path: `/block_ids/${index}`,
      message: `job-${batchId} has not changed block-${id}`,
    })),
  ];
  const [first] = fields;
  if (first === undefined) return;
  throw new NightshiftError('not_found', `${first.path}: ${first.message}. Nothing was reverted.`, {
    fields,
  });
}

async function lockConcerned(trx: Tx, { writes, events }: Scope): Promise<void> {
  const { rows } = await sql<{ agent_id: string }>`
    select distinct e.agent_id from block_event e where ${events}
  `.execute(trx);
  await lockAgents(
    trx,
    rows.map((row) => row.agent_id),
  );
  await sql`
    select 1 from block
     where id in (select w.block_id from block_revision w where ${writes}
                  union select e.block_id from block_event e where ${events})
     order by id for no key update
  `.execute(trx);
}

async function readWritten(trx: Tx, batchId: string, { writes }: Scope): Promise<readonly WrittenBlock[]> {
  const { rows } = await sql<WrittenBlock>`
    with mine as (
      select block_id, min(revision) as first, max(revision) as last, count(*)::int as writes
        from block_revision w where ${writes}
       group by block_id)
    select m.block_id, b.label, m.first, m.last, m.writes, b.deleted_at is not null as is_deleted,
           head.value = left_so.value and head.description is not distinct from left_so.description
             and head.char_limit = left_so.char_limit and head.read_only = left_so.read_only as is_as_written,
           coalesce(head.value = before.value and head.description is not distinct from before.description, false)
             as is_as_before,
           -- A batch whose last text equals the first has changed nothing.
           coalesce(head.batch_id <> ${batchId} and not exists (
             select from block_revision found
              where found.block_id = b.id and found.value = head.value
                and found.description is not distinct from head.description
                and found.revision = (select min(revision) - 1 from block_revision theirs
                                       where theirs.block_id = b.id and theirs.batch_id = head.batch_id)), false)
             as is_anothers
      from mine m
      join block b on b.id = m.block_id and b.held_by_batch_id is null
      join block_revision head on head.block_id = b.id and head.revision = b.head_revision
      join block_revision left_so on left_so.block_id = b.id and left_so.revision = m.last
      left join block_revision before on before.block_id = b.id and before.revision = m.first - 1
     order by m.block_id
  `.execute(trx);
  return rows;
}

/** Makes an old revision the content of a block again, as its next revision. */
async function restore(
  trx: Tx,
  blocks: readonly { readonly block_id: string; readonly revision: number }[],
): Promise<void> {
  const payload = JSON.stringify(blocks.map(({ block_id, revision }) => ({ b: block_id, v: revision })));
  await sql`
    with moved as (
      update block b set head_revision = b.head_revision + 1, updated_at = app_now()
        from json_to_recordset(${payload}::json) as d(b uuid, v int) where b.id = d.b
      returning b.id, b.head_revision, d.v)
    insert into block_revision (block_id, revision, project_id, description, value, char_limit, read_only, based_on)
    select m.id, m.head_revision, o.project_id, o.description, o.value, o.char_limit, o.read_only, m.head_revision - 1
      from moved m join block_revision o on o.block_id = m.id and o.revision = m.v
  `.execute(trx);
}

async function remove(trx: Tx, blocks: readonly RevertedBlock[]): Promise<void> {
  const ids = blocks.map((block) => block.block_id);
  await sql`
    update block set deleted_at = app_now(), updated_at = app_now() where id = any(${ids}::uuid[])
  `.execute(trx);
  await sql`delete from agent_block where block_id = any(${ids}::uuid[])`.execute(trx);
}

interface LabelsBack {
  readonly renamed: readonly RevertedBlock[];
  /** Renamed blocks whose label came from other writers, with that label. */
  readonly forced: readonly RevertedBlock[];
  readonly refused: RevertReport['refused'];
}

/**
 * Restores labels of blocks where no agent of theirs uses the label. Without `force` only blocks that still have the
 * batch's label and are not in `edited`.
 */
async function renameBack(
  trx: Tx,
  { events }: Scope,
  edited: ReadonlySet<string>,
  force: boolean,
): Promise<LabelsBack> {
  const { rows } = await sql<RevertedBlock & { old_label: string; is_edited: boolean }>`
    with moves as (
      select distinct e.block_id, first_value(e.created_at) over w as created_at, first_value(e.place) over w as place,
             first_value(e.label) over w as old_label, last_value(e.new_label) over w as new_label
        from block_event e where ${events} and e.kind = 'renamed'
      window w as (partition by e.block_id order by e.created_at, e.place
                   rows between unbounded preceding and unbounded following))
    select b.id as block_id, b.label, m.old_label, b.label <> m.new_label as is_edited
      from moves m join block b on b.id = m.block_id
     where b.deleted_at is null and b.label <> m.old_label
     order by m.created_at, m.place, b.id
  `.execute(trx);
  if (rows.length === 0) return { renamed: [], forced: [], refused: [] };
  const verdicts = refuseClashes(
    rows.map(({ block_id, label, old_label }) => ({
      agent_id: '',
      block_id,
      kind: 'revised' as const,
      label: old_label,
      base_label: label,
    })),
    rows.map(({ block_id, is_edited }) => (!force && (is_edited || edited.has(block_id)) ? 'edited' : null)),
    await readLabelsBeside(
      trx,
      rows.map((row) => row.block_id),
    ),
  );
  const free = rows.filter((_row, index) => verdicts[index] === null);
  if (free.length > 0) {
    const payload = JSON.stringify(free.map(({ block_id, old_label }) => ({ b: block_id, l: old_label })));
    await sql`set constraints agent_block_agent_id_label_key deferred`.execute(trx);
    await sql`
      update block b set label = d.l, updated_at = app_now()
        from json_to_recordset(${payload}::json) as d(b uuid, l text) where b.id = d.b
    `.execute(trx);
  }
  return {
    renamed: free.map(({ block_id, old_label }) => ({ block_id, label: old_label })),
    forced: free.flatMap(({ block_id, label, is_edited }) => (is_edited ? [{ block_id, label }] : [])),
    refused: refusedOf(rows, verdicts),
  };
}

interface AttachedAgain {
  readonly attached: RevertReport['attached'];
  readonly refused: RevertReport['refused'];
}

/**
 * Attaches detached blocks to their agents again if the block exists and its label is free; the first of a label wins.
 * Deleted agents are left out.
 */
async function attachAgain(trx: Tx, batchId: string, { events }: Scope): Promise<AttachedAgain> {
  const { rows } = await sql<RevertedBlock & { agent_id: string; is_deleted: boolean }>`
    with lost as (
      select distinct on (e.agent_id, e.block_id) e.agent_id, e.block_id, e.created_at, e.place
        from block_event e join agent a on a.id = e.agent_id and a.deleted_at is null
       where ${events} and e.kind = 'detached'
         and not exists (select from block_event c
                          where c.batch_id = ${batchId} and c.kind = 'created' and c.block_id = e.block_id)
         and not exists (select from agent_block k where k.agent_id = e.agent_id and k.block_id = e.block_id)
       order by e.agent_id, e.block_id, e.created_at, e.place)
    select l.agent_id, l.block_id, b.label, b.deleted_at is not null as is_deleted
      from lost l join block b on b.id = l.block_id
     order by l.agent_id, l.created_at, l.place, l.block_id
  `.execute(trx);
  if (rows.length === 0) return { attached: [], refused: [] };
  const { rows: labels } = await sql<LabelInUse>`
    select agent_id, block_id, label from agent_block
     where agent_id = any(${[...new Set(rows.map((row) => row.agent_id))]}::uuid[])
  `.execute(trx);
  const verdicts = refuseClashes(
    rows.map(({ agent_id, block_id, label }) => ({
      agent_id,
      block_id,
      kind: 'created' as const,
      label,
      base_label: null,
    })),
    rows.map(({ is_deleted }) => (is_deleted ? 'deleted' : null)),
    labels,
  );
  const free = rows.filter((_row, index) => verdicts[index] === null);
  if (free.length > 0) {
    const payload = JSON.stringify(
      free.map(({ agent_id, block_id }, n) => ({ a: agent_id, b: block_id, n })),
    );
    await sql`
      insert into agent_block (agent_id, block_id, label, project_id, position)
      select d.a, b.id, b.label, b.project_id,
             d.n + coalesce((select max(k.position) + 1 from agent_block k where k.agent_id = d.a), 0)
        from json_to_recordset(${payload}::json) as d(a uuid, b uuid, n int) join block b on b.id = d.b
    `.execute(trx);
  }
  return {
    attached: free.map(({ agent_id, block_id, label }) => ({ agent_id, block_id, label })),
    refused: refusedOf(rows, verdicts),
  };
}

function refusedOf(
  rows: readonly RevertedBlock[],
  verdicts: readonly (RevertRefusal | null)[],
): RevertReport['refused'] {
  return rows.flatMap(({ block_id, label }, index) => {
    const reason = verdicts[index] ?? null;
    return reason === null ? [] : [{ block_id, label, reason }];
  });
}

/** Returns the first item of each key. */
function distinctBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): readonly Item[] {
  return [...Map.groupBy(items, keyOf).values()].flatMap(([first]) => first ?? []);
}
