import { NightshiftError } from '@nightshift/agent-core';
import { sql, type RawBuilder, type Sql, type SqlBool } from 'kysely';
import type { Database } from '../connect.ts';

/** The requested part of a list. `after` and `before` are ids of its items. */
export interface Page {
  readonly limit: number;
  readonly order: 'asc' | 'desc';
  /** The items after it in the sort order. */
  readonly after: string | null;
  /** The items just before it, in the sort order. */
  readonly before: string | null;
  /** The caller's name of `after`, for its refusal. */
  readonly after_name?: string;
}

/** Refuses a cursor that names no item of the list: without its place, the page would be the first. */
export function refuseCursor(parameter: string): never {
  const path = `?${parameter}`;
  const message = 'names no item of this list';
  throw new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] });
}

/** The position of a cursor in a list sorted by (time, id). */
interface Position {
  /** Text, because a Date would lose its microseconds. */
  readonly time: string;
  readonly id: string;
}

/** A page as SQL: `where ${where} order by ${orderBy} limit …`, then `inOrder(rows)`. */
export interface Keyset {
  readonly where: RawBuilder<SqlBool>;
  /** `where` for the time alone: false for a `time` that no item of the page has. */
  spans(time: RawBuilder<unknown>): RawBuilder<SqlBool>;
  readonly orderBy: RawBuilder<unknown>;
  inOrder<Row>(rows: readonly Row[]): readonly Row[];
}

/** Tables with lists sorted by (time, id). */
type ListedTable = 'agent' | 'block' | 'tool' | 'batch' | 'run' | 'schedule' | 'run_failure';

/** Columns by which a list is sorted. */
type ListedTime = 'created_at' | 'updated_at' | 'failed_at';

/** The column with the id of an item. */
function idOf(table: ListedTable): string {
  return table === 'run_failure' ? 'run_id' : 'id';
}

/**
 * Returns the page as conditions on `alias.<time>, alias.id`, for an index on them. A cursor stands at its stored position,
 * which outlives a deleted tool or schedule: a client that deletes while listing goes on. `owner` is the condition on `alias`
 * for what an item of the list keeps for life, as its project; states and attachments may change while a client lists.
 * Throws: `validation_failed` for an id that is unknown or of another owner.
 */
export async function toKeyset(
  db: Database,
  page: Page,
  table: ListedTable,
  alias: string,
  owner: RawBuilder<unknown>,
  time: ListedTime = 'created_at',
): Promise<Keyset> {
  const id = sql.ref(`${alias}.${idOf(table)}`);
  const key = sql`(${sql.ref(`${alias}.${time}`)}, ${id})`;
  const at = (position: Position): RawBuilder<unknown> =>
    sql`(${position.time}::timestamptz, ${position.id}::uuid)`;
  const stored = await findPositions(db, { table, alias, owner, time }, [page.after, page.before]);
  const find = (side: 'after' | 'before'): Position | undefined => {
    const cursor = page[side];
    if (cursor === null) return undefined;
    return stored.get(cursor) ?? refuseCursor(side);
  };
  const after = find('after');
  const before = find('before');
  const bounds = [
    ...(after === undefined ? [] : [{ is: symbol(page.order, 'after'), position: after }]),
    ...(before === undefined ? [] : [{ is: symbol(page.order, 'before'), position: before }]),
  ];
  const reads = readDirection(page);
  const direction = reads === 'asc' ? sql`asc` : sql`desc`;
  return {
    where: allOf(bounds.map(({ is, position }) => sql`${key} ${is} ${at(position)}`)),
    spans: (of) => allOf(bounds.map(({ is, position }) => sql`${of} ${is}= ${position.time}::timestamptz`)),
    orderBy: sql`${sql.ref(`${alias}.${time}`)} ${direction}, ${id} ${direction}`,
    inOrder: (rows) => (reads === page.order ? rows : [...rows].reverse()),
  };
}

/** Returns the direction of a read: backwards from `before`, so that the limit keeps its neighbours. */
export function readDirection(page: Page): 'asc' | 'desc' {
  if (page.before === null) return page.order;
  return page.order === 'asc' ? 'desc' : 'asc';
}

function allOf(conditions: readonly RawBuilder<unknown>[]): RawBuilder<SqlBool> {
  return conditions.length === 0 ? sql`true` : sql.join(conditions, sql` and `);
}

function symbol(order: 'asc' | 'desc', side: 'after' | 'before'): RawBuilder<Sql> {
  return (order === 'asc') === (side === 'after') ? sql`>` : sql`<`;
}

async function findPositions(
  db: Database,
  list: {
    readonly table: ListedTable;
    readonly alias: string;
    readonly owner: RawBuilder<unknown>;
    readonly time: ListedTime;
  },
  cursors: readonly (string | null)[],
): Promise<ReadonlyMap<string, Position>> {
  const ids = cursors.filter((cursor) => cursor !== null);
  if (ids.length === 0) return new Map();
  const { table, alias, owner, time } = list;
  const id = sql.ref(idOf(table));
  // The key of a failure begins with its batch.
  const place =
    table === 'run_failure'
      ? sql`batch_id in (select batch_id from run where run.id = any(${ids}::uuid[]))`
      : sql`true`;
  const find = (from: string): RawBuilder<unknown> => sql`
    select ${id} as id, ${sql.ref(time)}::text as time from ${sql.table(from)} as ${sql.id(alias)}
     where ${id} = any(${ids}::uuid[]) and ${place} and ${owner}`;
  const deleted =
    table === 'tool' || table === 'schedule'
      ? sql`union all ${find('deleted_item')} and kind = ${table}`
      : sql``;
  const { rows } = await sql<Position>`${find(table)} ${deleted}`.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}
