import { NightshiftError, type ConflictPolicy } from '@nightshift/agent-core';
import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';
import { containsText } from '../contains-text.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { toKeyset, type Page } from '../keyset.ts';

/** A block at its head revision. */
export interface BlockRow {
  readonly id: string;
  readonly label: string;
  readonly revision: number;
  readonly value: string;
  readonly description: string | null;
  readonly char_limit: number;
  readonly read_only: boolean;
  readonly conflict_policy: ConflictPolicy;
  readonly metadata: Record<string, unknown>;
  readonly tags: readonly string[];
  readonly is_template: boolean;
  readonly hidden: boolean;
}

/** A block with the agent it is attached to. */
export interface AgentBlockRow extends BlockRow {
  readonly agent_id: string;
}

/** Filters of a list of blocks; null does not filter. */
export interface BlockFilter {
  readonly label: string | null;
  readonly label_part: string | null;
  readonly value_part: string | null;
  readonly description_part: string | null;
  readonly is_template: boolean | null;
  /** Bounds of the number of attached agents. */
  readonly agents_above: number | null;
  readonly agents_below: number | null;
  readonly agents_equal: readonly number[];
}

const columns = [
  ...([
    'b.id',
    'b.label',
    'b.head_revision as revision',
    'v.value',
    'v.description',
    'v.char_limit',
  ] as const),
  ...(['v.read_only', 'b.conflict_policy', 'b.metadata', 'b.tags', 'b.is_template', 'b.hidden'] as const),
] as const;

const selectBlocks = (db: Database) =>
  db
    .selectFrom('block as b')
    .innerJoin('block_revision as v', (join) =>
      join.onRef('v.block_id', '=', 'b.id').onRef('v.revision', '=', 'b.head_revision'),
    )
    .select(columns);

const selectAttachedBlocks = (db: Database) =>
  selectBlocks(db).innerJoin('agent_block as k', 'k.block_id', 'b.id');

/** The size of the block `p`. */
const BYTES = sql`octet_length(p.value) + octet_length(concat(p.description, p.metadata))`;

/** Reads one block. Throws: `not_found`. Index: primary keys. */
export async function readBlock(db: Database, projectId: string, blockId: string): Promise<BlockRow> {
  const [block] = await readBlocks(db, projectId, [blockId]);
  if (block === undefined) throw new NightshiftError('not_found', `There is no block block-${blockId}.`);
  return block;
}

/** Reads the existing blocks with these ids, unordered. Index: primary keys. */
export async function readBlocks(
  db: Database,
  projectId: string,
  blockIds: readonly string[],
): Promise<readonly BlockRow[]> {
  if (blockIds.length === 0) return [];
  return selectBlocks(db)
    .where('b.id', '=', anyUuid(blockIds))
    .where('b.project_id', '=', projectId)
    .where('b.deleted_at', 'is', null)
    .execute();
}

/** Reads a page of blocks by age. Index: `block_by_age`, or `block_by_label`. */
export async function listBlocks(
  db: Database,
  projectId: string,
  page: Page,
  filter: BlockFilter,
): Promise<Listed<BlockRow>> {
  const keyset = await toKeyset(db, page, 'block', 'b', sql`b.project_id = ${projectId}`);
  const blocks = selectBlocks(db)
    .where('b.project_id', '=', projectId)
    .where('b.deleted_at', 'is', null)
    .where((eb) => eb.not('b.hidden'))
    .where((eb) => eb.and([keyset.where, ...toConditions(filter)]))
    .orderBy(keyset.orderBy)
    .limit(page.limit);
  const { rows, is_cut } = await readCutPage(db, blocks, BYTES);
  return { rows: keyset.inOrder(rows), is_cut };
}

function toConditions(filter: BlockFilter): readonly RawBuilder<SqlBool>[] {
  const agents = sql`(select count(*) from agent_block k join agent a on a.id = k.agent_id and a.deleted_at is null
    where k.block_id = b.id)`;
  return [
    ...(filter.label === null ? [] : [sql<SqlBool>`b.label = ${filter.label}`]),
    ...(filter.label_part === null ? [] : [containsText('b.label', filter.label_part)]),
    ...(filter.value_part === null ? [] : [containsText('v.value', filter.value_part)]),
    ...(filter.description_part === null ? [] : [containsText('v.description', filter.description_part)]),
    ...(filter.is_template === null ? [] : [sql<SqlBool>`b.is_template = ${filter.is_template}`]),
    ...(filter.agents_above === null ? [] : [sql<SqlBool>`${agents} > ${filter.agents_above}`]),
    ...(filter.agents_below === null ? [] : [sql<SqlBool>`${agents} < ${filter.agents_below}`]),
    ...(filter.agents_equal.length === 0
      ? []
      : [sql<SqlBool>`${agents} = any(${[...filter.agents_equal]}::bigint[])`]),
  ];
}

/** Reads the blocks of agents, in attach order. Index: primary keys of `agent_block`, `block`, `block_revision`. */
export async function readBlocksOfAgents(
  db: Database,
  agentIds: readonly string[],
): Promise<readonly AgentBlockRow[]> {
  if (agentIds.length === 0) return [];
  return selectAttachedBlocks(db)
    .select('k.agent_id')
    .where('k.agent_id', '=', anyUuid(agentIds))
    .orderBy('k.agent_id')
    .orderBy('k.position')
    .orderBy('b.id')
    .execute();
}

/** Reads a page of an agent's blocks by age. */
export async function listAgentBlocks(db: Database, agentId: string, page: Page): Promise<Listed<BlockRow>> {
  const keyset = await toKeyset(
    db,
    page,
    'block',
    'b',
    sql`b.project_id = (select project_id from agent where id = ${agentId})`,
  );
  const blocks = selectAttachedBlocks(db)
    .where('k.agent_id', '=', agentId)
    .where(keyset.where)
    .orderBy(keyset.orderBy)
    .limit(page.limit);
  const { rows, is_cut } = await readCutPage(db, blocks, BYTES);
  return { rows: keyset.inOrder(rows), is_cut };
}

/** Reads an agent's block with a label. Throws: `not_found`. Index: the unique (agent, label). */
export async function readAgentBlock(db: Database, agentId: string, label: string): Promise<BlockRow> {
  const block = await selectAttachedBlocks(db)
    .where('k.agent_id', '=', agentId)
    .where('k.label', '=', label)
    .executeTakeFirst();
  if (block === undefined) {
    throw new NightshiftError('not_found', `The agent agent-${agentId} has no block labelled '${label}'.`);
  }
  return block;
}
