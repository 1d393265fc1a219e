import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../connect.ts';
import { uuidArray } from '../uuid-array.ts';
import type { Part, Reads } from './invariant.ts';

/** The rows that an audit covers, besides those that stay small: changed batches, and a slice of all. */
export interface AuditScope {
  /** Batches that were open or ended since, with a margin. */
  readonly since: Date;
  /** The slice: rows whose ids are above `after`, up to `to`. */
  readonly slice: Slice;
}

/** Null: from the first id, or to the last. */
export interface Slice {
  readonly after: string | null;
  readonly to: string | null;
}

/** Time before `since` for which ended batches count as changed: some invariants look back. */
const MARGIN = sql`interval '1 hour'`;
const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
/** More ranges are joined, the closest first: a statement tests each of them for each row. */
const RANGES_MAX = 16;

interface Range {
  readonly from: string;
  readonly to: string;
}

/** Conditions on ids of each kind. */
interface Conditions {
  readonly batches: (id: RawBuilder<unknown>) => RawBuilder<unknown>;
  readonly runs: (id: RawBuilder<unknown>) => RawBuilder<unknown>;
  readonly conversations: (id: RawBuilder<unknown>) => RawBuilder<unknown>;
  readonly providerBatches: (id: RawBuilder<unknown>) => RawBuilder<unknown>;
  readonly slice: (id: RawBuilder<unknown>) => RawBuilder<unknown>;
}

/** Narrows a statement of an invariant and prepares the transaction for it; null: the statement is left out. */
export type Narrow = (part: Part) => Promise<RawBuilder<unknown> | null>;

/**
 * Returns how statements are narrowed to a scope. A CTE takes the name of each table that a statement reads, so the invariants
 * do not know of scopes. Ids are UUIDv7: the runs of a batch are neighbours in the primary keys of steps and calls, and a range
 * of ids is read like a table of its own.
 * Index: `batch_open`, `batch_due`, `batch_by_end`, the unique (batch, ordinal), primary keys.
 */
export async function narrowTo(trx: Tx, { since, slice }: AuditScope): Promise<Narrow> {
  const conditions = await readConditions(trx, since, slice);
  const tables = tablesOf(conditions);
  return async ({ reads, sql: statement }) => {
    // The newest rows are in no statistics yet: expecting few, the planner would compare each with each.
    const joins = reads in tables && reads !== 'cursors' && reads !== 'open work' ? 'off' : 'on';
    await sql`select set_config('enable_nestloop', ${joins}, true), set_config('jit', 'off', true)`.execute(
      trx,
    );
    if (reads === 'all' || (reads === 'all, weekly' && slice.to === null)) return statement;
    if (reads === 'all, weekly') return null;
    const narrowed = Object.entries(tables[reads]).map(
      ([name, rows]) => sql`${sql.ref(name)} as not materialized (${rows})`,
    );
    // Found as a whole: for the first rows alone, the planner would walk an index from its begin.
    return sql`with ${sql.join(narrowed)}, found as materialized (${statement}) select * from found`;
  };
}

async function readConditions(trx: Tx, since: Date, slice: Slice): Promise<Conditions> {
  const bounds = { from: slice.after ?? FIRST_ID, to: slice.to ?? LAST_ID };
  const isInSlice = (id: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql`(${id} > ${bounds.from}::uuid and ${id} <= ${bounds.to}::uuid)`;
  const changed = await sql<{ id: string }>`
    select id from batch where completed_at is null
    union select id from batch where next_due_at is not null
    union select id from batch where completed_at >= ${since}::timestamptz - ${MARGIN}
  `.execute(trx);
  const ids = sql`any(${uuidArray(changed.rows.map(({ id }) => id))}::uuid[])`;
  const batches = (id: RawBuilder<unknown>): RawBuilder<unknown> => sql`(${id} = ${ids} or ${isInSlice(id)})`;
  // min(uuid) is missing before PostgreSQL 18.
  const { rows } = await sql<{
    first: string;
    last: string;
    first_own: string | null;
    last_own: string | null;
  }>`
    select min(r.id::text) as first, max(r.id::text) as last,
           min(r.conversation_id::text) filter (where a.id is null) as first_own,
           max(r.conversation_id::text) filter (where a.id is null) as last_own
      from run r left join agent a on a.id = r.agent_id and a.conversation_id = r.conversation_id
     where ${batches(sql`r.batch_id`)} group by r.batch_id
  `.execute(trx);
  const runs = isInRanges([bounds, ...rows.map(({ first, last }) => ({ from: first, to: last }))]);
  const conversations = isInRanges([
    bounds,
    ...rows.flatMap(({ first_own: from, last_own: to }) =>
      from === null || to === null ? [] : [{ from, to }],
    ),
  ]);
  const named = await sql<{ id: string }>`
    select distinct provider_batch_id as id from step where ${runs(sql`run_id`)}
    union select id from provider_batch where next_due_at is not null
  `.execute(trx);
  const provider = sql`any(${uuidArray(named.rows.map(({ id }) => id))}::uuid[])`;
  const providerBatches = (id: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql`(${id} = ${provider} or ${isInSlice(id)})`;
  return { batches, runs, conversations, providerBatches, slice: isInSlice };
}

/** The rows that stand for each table, by what a statement reads. */
function tablesOf(
  is: Conditions,
): Readonly<Record<Exclude<Reads, 'all' | 'all, weekly'>, Readonly<Record<string, RawBuilder<unknown>>>>> {
  const ofBatches = (...tables: readonly string[]) =>
    Object.fromEntries(
      tables.map((table) => [table, sql`select * from ${sql.ref(table)} where ${is.batches(sql`batch_id`)}`]),
    );
  const ofRuns = (...tables: readonly string[]) =>
    Object.fromEntries(
      tables.map((table) => [table, sql`select * from ${sql.ref(table)} where ${is.runs(sql`run_id`)}`]),
    );
  const ofConversations = (table: string, key: string) => ({
    [table]: sql`
      select * from ${sql.ref(table)} where ${is.conversations(sql.ref(key))}
      union all select * from ${sql.ref(table)} where ${sql.ref(key)} in (select id from agents_own) and not ${is.conversations(sql.ref(key))}`,
  });
  // The conversations of agents that have a run in the scope; before `run` is narrowed.
  const own = {
    agents_own: sql`
      select a.conversation_id as id from agent a
       where a.id in (select agent_id from run r where ${is.batches(sql`r.batch_id`)} and r.conversation_id = a.conversation_id)`,
  };
  const work = {
    ...own,
    batch: sql`select * from batch where ${is.batches(sql`id`)}`,
    ...ofBatches('run', 'ended_runs', 'run_failure', 'batch_tally', 'batch_budget', 'batch_agent'),
    ...ofBatches('block_revision', 'block_event', 'held_change'),
    ...ofRuns('step', 'tool_call', 'tool_call_output', 'memory_notice'),
    queued_input: sql`select * from queued_input where run_id in (select id from run)`,
    ...ofConversations('message', 'conversation_id'),
    ...ofConversations('conversation', 'id'),
  };
  return {
    work,
    'open work': work,
    keys: {
      run: sql`select * from run where ${is.runs(sql`id`)}`,
      ...ofRuns('step', 'tool_call', 'tool_call_output'),
    },
    conversations: {
      ...own,
      ...ofConversations('message', 'conversation_id'),
      ...ofConversations('conversation_summary', 'conversation_id'),
      ...ofConversations('conversation', 'id'),
    },
    'provider batches': {
      provider_batch: sql`select * from provider_batch where ${is.providerBatches(sql`id`)}`,
      step: sql`select * from step where ${is.providerBatches(sql`provider_batch_id`)}`,
    },
    blocks: {
      block: sql`
        select * from block where ${is.slice(sql`id`)}
        union all select * from block
         where id in (select block_id from block_revision where ${is.batches(sql`batch_id`)}) and not ${is.slice(sql`id`)}`,
      block_revision: sql`select * from block_revision where block_id in (select id from block)`,
    },
    cursors: {
      cursor_span: sql`
        select * from cursor_span
         where agent_id in (select agent_id from cursor_span where ${is.batches(sql`batch_id`)}
                            union all select id from agent where ${is.slice(sql`id`)})`,
    },
  };
}

/** Returns the condition of being in one of the ranges. */
function isInRanges(ranges: readonly Range[]): (id: RawBuilder<unknown>) => RawBuilder<unknown> {
  const joined = joinRanges(ranges);
  return (id) =>
    sql`(${sql.join(
      joined.map(({ from, to }) => sql`${id} between ${from}::uuid and ${to}::uuid`),
      sql` or `,
    )})`;
}

/** Joins ranges that overlap, then the closest until few are left. */
function joinRanges(ranges: readonly Range[]): readonly Range[] {
  const joined: { from: string; to: string }[] = [];
  for (const { from, to } of ranges.toSorted((a, b) => (a.from < b.from ? -1 : 1))) {
    const last = joined.at(-1);
    if (last === undefined || from > last.to) joined.push({ from, to });
    else if (to > last.to) last.to = to;
  }
  while (joined.length > RANGES_MAX) {
    const gaps = joined.slice(1).map(({ from }, at) => timeOf(from) - timeOf(joined[at]?.to ?? from));
    const at = gaps.indexOf(Math.min(...gaps));
    const [next] = joined.splice(at + 1, 1);
    const before = joined[at];
    if (next !== undefined && before !== undefined) before.to = next.to;
  }
  return joined;
}

/** The milliseconds in a UUIDv7. */
function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}
