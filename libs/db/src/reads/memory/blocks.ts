import { NightshiftError, type ConflictPolicy } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { containsText } from '../contains-text.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { toKeyset, type Page } from '../keyset.ts';

/** A block at its present revision. */
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

/** A block with the agent that holds it. */
export interface AgentBlockRow extends BlockRow {
  readonly agent_id: string;
}

/** What blocks a list shows; null does not filter. */
export interface BlockFilter {
  readonly label: string | null;
  readonly label_part: string | null;
  readonly value_part: string | null;
  readonly description_part: string | null;
  readonly is_template: boolean | null;
  /** Bounds of the number of agents that hold the block. */
  readonly agents_above: number | null;
  readonly agents_below: number | null;
  readonly agents_equal: readonly number[];
}

const columns = sql`b.id, b.label, b.head_revision as revision, v.value, v.description, v.char_limit, v.read_only, b.conflict_policy,
  b.metadata, b.tags, b.is_template, b.hidden`;
const tables = sql`block b join block_revision v on v.block_id = b.id and v.revision = b.head_revision`;

/** One block; throws `not_found`. Index: primary keys. */
export async function readBlock(db: Database, projectId: string, blockId: string): Promise<BlockRow> {
  const [block] = await readBlocks(db, projectId, [blockId]);
  if (block === undefined) throw new NightshiftError('not_found', `There is no block block-${blockId}.`);
  return block;
}

/** The blocks of these ids that exist, in no order. Index: primary keys. */
export async function readBlocks(
  db: Database,
  projectId: string,
  blockIds: readonly string[],
): Promise<readonly BlockRow[]> {
  if (blockIds.length === 0) return [];
  const { rows } = await sql<BlockRow>`
    select ${columns} from ${tables}
    where b.id = any(${[...blockIds]}::uuid[]) and b.project_id = ${projectId} and b.deleted_at is null
  `.execute(db);
  return rows;
}

/** A page of blocks by age. Index: `block_by_age`, or `block_by_label`. */
export async function listBlocks(
  db: Database,
  projectId: string,
  page: Page,
  filter: BlockFilter,
): Promise<Listed<BlockRow>> {
  const keyset = await toKeyset(db, page, 'block', 'b');
  const { rows, is_cut } = await readCutPage<BlockRow>(
    db,
    sql`
    select ${columns} from ${tables}
    where b.project_id = ${projectId} and b.deleted_at is null and not b.hidden and ${keyset.where}
      and ${sql.join([sql`true`, ...toConditions(filter)], sql` and `)}
    order by ${keyset.orderBy} limit ${page.limit}
  `,
    sql`octet_length(p.value) + octet_length(concat(p.description, p.metadata))`,
  );
  return { rows: keyset.inOrder(rows), is_cut };
}

function toConditions(filter: BlockFilter): readonly RawBuilder<unknown>[] {
  const agents = sql`(select count(*) from agent_block k join agent a on a.id = k.agent_id and a.deleted_at is null
    where k.block_id = b.id)`;
  return [
    ...(filter.label === null ? [] : [sql`b.label = ${filter.label}`]),
    ...(filter.label_part === null ? [] : [containsText('b.label', filter.label_part)]),
    ...(filter.value_part === null ? [] : [containsText('v.value', filter.value_part)]),
    ...(filter.description_part === null ? [] : [containsText('v.description', filter.description_part)]),
    ...(filter.is_template === null ? [] : [sql`b.is_template = ${filter.is_template}`]),
    ...(filter.agents_above === null ? [] : [sql`${agents} > ${filter.agents_above}`]),
    ...(filter.agents_below === null ? [] : [sql`${agents} < ${filter.agents_below}`]),
    ...(filter.agents_equal.length === 0
      ? []
      : [sql`${agents} = any(${[...filter.agents_equal]}::bigint[])`]),
  ];
}

/** The blocks of agents, per agent in attach order. Index: primary keys of `agent_block`, `block`, `block_revision`. */
export async function readBlocksOfAgents(
  db: Database,
  agentIds: readonly string[],
): Promise<readonly AgentBlockRow[]> {
  if (agentIds.length === 0) return [];
  const { rows } = await sql<AgentBlockRow>`
    select k.agent_id, ${columns} from agent_block k join ${tables} on b.id = k.block_id
    where k.agent_id = any(${[...agentIds]}::uuid[]) order by k.agent_id, k.position, b.id
  `.execute(db);
  return rows;
}

/** A page of one agent's blocks by age. */
export async function listAgentBlocks(db: Database, agentId: string, page: Page): Promise<Listed<BlockRow>> {
  const keyset = await toKeyset(db, page, 'block', 'b');
  const { rows, is_cut } = await readCutPage<BlockRow>(
    db,
    sql`
    select ${columns} from agent_block k join ${tables} on b.id = k.block_id
    where k.agent_id = ${agentId} and ${keyset.where} order by ${keyset.orderBy} limit ${page.limit}
  `,
    sql`octet_length(p.value) + octet_length(concat(p.description, p.metadata))`,
  );
  return { rows: keyset.inOrder(rows), is_cut };
}

/** The block that an agent holds under a label; throws `not_found`. Index: the unique (agent, label). */
export async function readAgentBlock(db: Database, agentId: string, label: string): Promise<BlockRow> {
  const { rows } = await sql<BlockRow>`
    select ${columns} from agent_block k join ${tables} on b.id = k.block_id
    where k.agent_id = ${agentId} and k.label = ${label}
  `.execute(db);
  const [block] = rows;
  if (block === undefined) {
    throw new NightshiftError('not_found', `The agent agent-${agentId} has no block labelled '${label}'.`);
  }
  return block;
}
