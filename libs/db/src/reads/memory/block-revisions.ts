import { NightshiftError, SHRINK_POLICY_DEFAULT, type WriteResolution } from '@nightshift/agent-core';
import { sql, type NotNull, type SqlBool } from 'kysely';
import type { Database } from '../../connect.ts';
import { anyUuid, AS_FIRST, UNMERGED } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { readDirection, refuseCursor } from '../keyset.ts';

/** A page of numbered rows. */
export interface NumberPage {
  readonly limit: number;
  readonly order: 'asc' | 'desc';
  readonly after: number | null;
  readonly before: number | null;
}

/** A write of a block. The writer is null for an API request. */
export interface BlockRevisionRow {
  readonly block_id: string;
  readonly revision: number;
  readonly label: string;
  readonly value: string;
  readonly description: string | null;
  readonly char_limit: number;
  readonly read_only: boolean;
  readonly based_on: number | null;
  readonly resolution: WriteResolution | null;
  readonly batch_id: string | null;
  readonly run_id: string | null;
  readonly agent_id: string | null;
  readonly step_number: number | null;
  readonly attempt: number | null;
  readonly tool_use_id: string | null;
  readonly created_at: Date;
}

/** A write of a batch, with the replaced text. */
export interface MemoryChangeRow extends BlockRevisionRow {
  readonly run_id: string;
  readonly agent_id: string;
  readonly step_number: number;
  readonly attempt: number;
  readonly tool_use_id: string;
  readonly resolution: WriteResolution;
  /** Null for a block that the batch created. */
  readonly value_before: string | null;
}

/** The columns present in every write of a run. */
type Written = Record<
  'run_id' | 'agent_id' | 'step_number' | 'attempt' | 'tool_use_id' | 'resolution',
  NotNull
>;

/** Filters of a list of a batch's writes; null does not filter. */
export interface MemoryChangeFilter {
  readonly agent_id: string | null;
  readonly block_id: string | null;
  /** Only writes that removed so much text that a person should check them. */
  readonly shrunk: boolean;
}

/** Identifies a write by the block and its revision. */
export interface RevisionKey {
  readonly block_id: string;
  readonly revision: number;
}

const columns = [
  ...(['r.block_id', 'r.revision', 'b.label', 'r.description', 'r.char_limit', 'r.read_only'] as const),
  ...(['r.based_on', 'r.resolution', 'r.batch_id', 'r.run_id', 'run.agent_id', 'r.step_number'] as const),
  ...(['s.attempt', 'r.tool_use_id', 'r.created_at'] as const),
] as const;

const selectRevisions = (db: Database) =>
  db
    .selectFrom('block_revision as r')
    .innerJoin('block as b', 'b.id', 'r.block_id')
    .leftJoin('run', 'run.id', 'r.run_id')
    .leftJoin('step as s', (join) =>
      join
        .onRef('s.run_id', '=', 'r.run_id')
        .onRef('s.number', '=', 'r.step_number')
        .on('s.applied_at', 'is not', null),
    )
    .select(columns);

/** Reads a page of a block's revisions, without their texts. Index: primary key of `block_revision`. */
export async function listBlockRevisions(
  db: Database,
  blockId: string,
  page: NumberPage,
): Promise<Listed<Omit<BlockRevisionRow, 'value'>>> {
  const reads = readDirection({ ...page, after: null, before: page.before === null ? null : '' });
  const [above, below] = page.order === 'asc' ? [page.after, page.before] : [page.before, page.after];
  const revisions = selectRevisions(db)
    .where('r.block_id', '=', blockId)
    .where('r.revision', '>', above ?? 0)
    .where('r.revision', '<', below ?? 2_147_483_647)
    .orderBy('r.revision', reads)
    .limit(page.limit);
  const bytes = sql`coalesce(octet_length(p.description), 0)`;
  const { rows, is_cut } = await readCutPage(db, revisions, bytes);
  return { rows: reads === page.order ? rows : rows.toReversed(), is_cut };
}

/** Reads revisions of a block by number, unordered. Throws: `not_found` with the first missing number. */
export async function readBlockRevisions(
  db: Database,
  blockId: string,
  revisions: readonly number[],
): Promise<ReadonlyMap<number, BlockRevisionRow>> {
  const rows = await selectRevisions(db)
    .select('r.value')
    .where('r.block_id', '=', blockId)
    .where('r.revision', '=', sql<number>`any(${[...revisions]}::int[])`)
    .execute();
  const found = new Map(rows.map((row) => [row.revision, row]));
  const missing = revisions.find((revision) => !found.has(revision));
  if (missing === undefined) return found;
  throw new NightshiftError('not_found', `The block block-${blockId} has no revision ${missing}.`);
}

/**
 * Reads a page of a batch's writes, by block and revision, each with the replaced text. Throws: `validation_failed` for a
 * cursor that is no write of the batch. Index: `block_revision_by_batch`, primary key of `block_revision`.
 */
export async function listMemoryChanges(
  db: Database,
  batchId: string,
  page: {
    readonly limit: number;
    readonly order: 'asc' | 'desc';
    readonly after: RevisionKey | null;
    readonly before: RevisionKey | null;
  },
  filter: MemoryChangeFilter,
): Promise<Listed<MemoryChangeRow>> {
  for (const side of ['after', 'before'] as const) {
    const key = page[side];
    if (key === null) continue;
    const write = db
      .selectFrom('block_revision')
      .select('revision')
      .where('block_id', '=', key.block_id)
      .where('revision', '=', key.revision)
      .where('batch_id', '=', batchId);
    if ((await write.executeTakeFirst()) === undefined) refuseCursor(side);
  }
  const isAscending = page.order === 'asc';
  const readsAscending = page.before === null ? isAscending : !isAscending;
  const beyond = (key: RevisionKey | null, greater: boolean) =>
    key === null
      ? sql<SqlBool>`true`
      : sql<SqlBool>`(r.block_id, r.revision) ${greater ? sql`>` : sql`<`} (${key.block_id}::uuid, ${key.revision}::int)`;
  const { loss_ratio, chars_min } = SHRINK_POLICY_DEFAULT;
  const { block_id, agent_id, shrunk } = filter;
  const isShrunk = sql<SqlBool>`char_length(p.value) >= ${chars_min}
    and char_length(p.value) - char_length(r.value) >= char_length(p.value) * ${loss_ratio}::float8`;
  const direction = readsAscending ? 'asc' : 'desc';
  const changes = selectRevisions(db)
    .leftJoin('block_revision as p', (join) =>
      join.onRef('p.block_id', '=', 'r.block_id').on('p.revision', '=', sql<number>`r.revision - 1`),
    )
    .select(['r.value', 'p.value as value_before'])
    .where('r.batch_id', '=', batchId)
    .where('b.held_by_batch_id', 'is', null)
    .where(beyond(page.after, isAscending))
    .where(beyond(page.before, !isAscending))
    .$if(block_id !== null, (query) => query.where('r.block_id', '=', block_id))
    .$if(agent_id !== null, (query) => query.where('run.agent_id', '=', agent_id))
    .$if(shrunk, (query) => query.where(isShrunk))
    .orderBy('r.block_id', direction)
    .orderBy('r.revision', direction)
    .limit(page.limit)
    .$narrowType<Written>();
  const bytes = sql`octet_length(p.value) + octet_length(concat(p.value_before, p.description))`;
  const { rows, is_cut } = await readCutPage(db, changes, bytes);
  return { rows: readsAscending === isAscending ? rows : rows.toReversed(), is_cut };
}

/** A write of a run, without its text. */
export interface RunWrite extends RevisionKey {
  readonly run_id: string;
  /** Bytes of the text and of the replaced text. */
  readonly bytes: number;
}

/**
 * Finds the writes of runs of `batchIds`, by block and revision, held changes excluded. No index leads from a run to its writes: a
 * run writes only blocks that its requests showed, that it made, or that its agent has.
 * Index: primary keys, `block_revision_by_batch`. Reads all writes of the batches to these blocks.
 */
export async function findWritesOfRuns(
  db: Database,
  batchIds: readonly string[],
  runIds: readonly string[],
): Promise<readonly RunWrite[]> {
  const ids = uuidArray(runIds);
  const { rows } = await sql<RunWrite>`
    with runs ${AS_FIRST} (select unnest(${ids}::uuid[]) as id),
         blocks ${AS_FIRST} (
           select s.block_id from runs cross join lateral (
             select unnest(block_ids) as block_id from step where run_id = runs.id ${UNMERGED}) s
           union
           select e.block_id from runs cross join lateral (
             select block_id from block_event where run_id = runs.id ${UNMERGED}) e
           union
           select a.block_id from runs cross join lateral (
             select block_id from agent_block where agent_id = (select agent_id from run where id = runs.id) ${UNMERGED}) a)
    select v.block_id, v.revision, v.run_id, octet_length(v.value) + coalesce(octet_length(p.value), 0) as bytes
      from blocks join block b on b.id = blocks.block_id and b.held_by_batch_id is null
     cross join lateral (
       select block_id, revision, run_id, value from block_revision
        where batch_id = ${anyUuid(batchIds)} and block_id = blocks.block_id and run_id in (select id from runs) ${UNMERGED}) v
      left join block_revision p on p.block_id = v.block_id and p.revision = v.revision - 1
     order by v.block_id, v.revision
  `.execute(db);
  return rows;
}

/** Reads these writes, by block and revision, each with the replaced text. Index: primary key of `block_revision`. */
export async function readMemoryChanges(
  db: Database,
  keys: readonly RevisionKey[],
): Promise<readonly MemoryChangeRow[]> {
  return selectRevisions(db)
    .innerJoin(
      sql<RevisionKey>`unnest(${uuidArray(keys.map((key) => key.block_id))}::uuid[], ${keys.map((key) => key.revision)}::int[])`.as<'k'>(
        sql`k(block_id, revision)`,
      ),
      (join) => join.onRef('k.block_id', '=', 'r.block_id').onRef('k.revision', '=', 'r.revision'),
    )
    .leftJoin('block_revision as p', (join) =>
      join.onRef('p.block_id', '=', 'r.block_id').on('p.revision', '=', sql<number>`r.revision - 1`),
    )
    .select(['r.value', 'p.value as value_before'])
    .orderBy('r.block_id')
    .orderBy('r.revision')
    .$narrowType<Written>()
    .execute();
}
