import { NightshiftError, SHRINK_POLICY_DEFAULT, type WriteResolution } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { readDirection } from '../keyset.ts';

/** A page of something numbered. */
export interface NumberPage {
  readonly limit: number;
  readonly order: 'asc' | 'desc';
  readonly after: number | null;
  readonly before: number | null;
}

/** One write of a block. The writer is null for a person, or a program, at the API. */
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

/** A write of a batch beside what it replaced. */
export interface MemoryChangeRow extends BlockRevisionRow {
  readonly run_id: string;
  readonly agent_id: string;
  readonly step_number: number;
  readonly attempt: number;
  readonly tool_use_id: string;
  readonly resolution: WriteResolution;
  /** Null for a block that the batch made. */
  readonly value_before: string | null;
}

/** Which writes of a batch a list shows; null does not filter. */
export interface MemoryChangeFilter {
  readonly agent_id: string | null;
  readonly block_id: string | null;
  /** Only writes by which so much went that somebody should look. */
  readonly shrunk: boolean;
}

/** A write, by the block and its revision. */
export interface RevisionKey {
  readonly block_id: string;
  readonly revision: number;
}

const columns = sql`r.block_id, r.revision, b.label, r.description, r.char_limit, r.read_only, r.based_on, r.resolution,
  r.batch_id, r.run_id, run.agent_id, r.step_number, s.attempt, r.tool_use_id, r.created_at`;
const tables = sql`block_revision r join block b on b.id = r.block_id left join run on run.id = r.run_id
  left join step s on s.run_id = r.run_id and s.number = r.step_number and s.applied_at is not null`;

/** A page of the revisions of a block, without their texts. Index: primary key of `block_revision`. */
export async function listBlockRevisions(
  db: Database,
  blockId: string,
  page: NumberPage,
): Promise<Listed<Omit<BlockRevisionRow, 'value'>>> {
  const reads = readDirection({ ...page, after: null, before: page.before === null ? null : '' });
  const [above, below] = page.order === 'asc' ? [page.after, page.before] : [page.before, page.after];
  const { rows, is_cut } = await readCutPage<Omit<BlockRevisionRow, 'value'>>(
    db,
    sql`
    select ${columns} from ${tables}
     where r.block_id = ${blockId} and r.revision > ${above ?? 0} and r.revision < ${below ?? 2_147_483_647}
     order by r.revision ${reads === 'asc' ? sql`asc` : sql`desc`} limit ${page.limit}
  `,
    sql`coalesce(octet_length(p.description), 0)`,
  );
  return { rows: reads === page.order ? rows : rows.toReversed(), is_cut };
}

/** Revisions of a block by their numbers, in no order. Throws `not_found`, naming the first that there is not. */
export async function readBlockRevisions(
  db: Database,
  blockId: string,
  revisions: readonly number[],
): Promise<ReadonlyMap<number, BlockRevisionRow>> {
  const { rows } = await sql<BlockRevisionRow>`
    select ${columns}, r.value from ${tables}
     where r.block_id = ${blockId} and r.revision = any(${[...revisions]}::int[])
  `.execute(db);
  const found = new Map(rows.map((row) => [row.revision, row]));
  const missing = revisions.find((revision) => !found.has(revision));
  if (missing === undefined) return found;
  throw new NightshiftError('not_found', `The block block-${blockId} has no revision ${missing}.`);
}

/**
 * A page of the writes of a batch, by block and revision, each with the text that it replaced. Index:
 * `block_revision_by_batch`, primary key of `block_revision`.
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
  const isAscending = page.order === 'asc';
  const readsAscending = page.before === null ? isAscending : !isAscending;
  const direction = readsAscending ? sql`asc` : sql`desc`;
  const beyond = (key: RevisionKey | null, greater: boolean) =>
    key === null
      ? sql`true`
      : sql`(r.block_id, r.revision) ${greater ? sql`>` : sql`<`} (${key.block_id}::uuid, ${key.revision}::int)`;
  const { loss_ratio, chars_min } = SHRINK_POLICY_DEFAULT;
  const { rows, is_cut } = await readCutPage<MemoryChangeRow>(
    db,
    sql`
    select ${columns}, r.value, p.value as value_before
      from ${tables} left join block_revision p on p.block_id = r.block_id and p.revision = r.revision - 1
     where r.batch_id = ${batchId} and b.held_by_batch_id is null
       and ${beyond(page.after, isAscending)} and ${beyond(page.before, !isAscending)}
       and ${filter.block_id === null ? sql`true` : sql`r.block_id = ${filter.block_id}::uuid`}
       and ${filter.agent_id === null ? sql`true` : sql`run.agent_id = ${filter.agent_id}::uuid`}
       and ${
         filter.shrunk
           ? sql`char_length(p.value) >= ${chars_min}
               and char_length(p.value) - char_length(r.value) >= char_length(p.value) * ${loss_ratio}::float8`
           : sql`true`
       }
     order by r.block_id ${direction}, r.revision ${direction} limit ${page.limit}
  `,
    sql`octet_length(p.value) + octet_length(concat(p.value_before, p.description))`,
  );
  return { rows: readsAscending === isAscending ? rows : rows.toReversed(), is_cut };
}
