import { sql, type RawBuilder, type Sql, type SqlBool } from 'kysely';
import type { Database } from '../connect.ts';

/** Which part of a list is wanted. `after` and `before` are ids of items of the list. */
export interface Page {
  readonly limit: number;
  readonly order: 'asc' | 'desc';
  /** The items that follow it in the sort order. */
  readonly after: string | null;
  /** The items just before it, still in the sort order. */
  readonly before: string | null;
}

/** Where a cursor stands in a list sorted by (time, id). */
interface Position {
  /** Text, because a Date would lose its microseconds. */
  readonly time: string;
  readonly id: string;
}

/** A page as SQL: `where ${where} order by ${orderBy} limit …`, then `inOrder(rows)`. */
export interface Keyset {
  readonly where: RawBuilder<SqlBool>;
  /** What `where` says of the times alone: false of a `time` that no item of the page has. */
  spans(time: RawBuilder<unknown>): RawBuilder<SqlBool>;
  readonly orderBy: RawBuilder<unknown>;
  inOrder<Row>(rows: readonly Row[]): readonly Row[];
}

/** The tables that are listed by (time, id). */
type ListedTable = 'agent' | 'block' | 'tool' | 'batch' | 'run';

/**
 * How far the time in an id may be from the row's own: that one has milliseconds and comes from the clock of whoever made
 * the id, this one has microseconds and comes from the database's.
 */
const ID_TIME_SLACK_MS = 1_000;

/**
 * The page as conditions on `alias.<time>, alias.id`, to be served by an index on them. A cursor is taken by its stored
 * position; that of a deleted row by the time in its id (a UUIDv7) less a second, so that who deletes while listing misses
 * nothing, and at worst sees again what was made in that second; any other unknown id as no cursor.
 */
export async function toKeyset(
  db: Database,
  page: Page,
  table: ListedTable,
  alias: string,
  time: 'created_at' | 'updated_at' = 'created_at',
): Promise<Keyset> {
  const key = sql`(${sql.ref(`${alias}.${time}`)}, ${sql.ref(`${alias}.id`)})`;
  const at = (position: Position): RawBuilder<unknown> =>
    sql`(${position.time}::timestamptz, ${position.id}::uuid)`;
  const stored = await findStoredPositions(db, table, time, [page.after, page.before]);
  const backwardsMs = page.order === 'asc' ? -ID_TIME_SLACK_MS : ID_TIME_SLACK_MS;
  const find = (cursor: string | null, shiftMs: number): Position | undefined =>
    cursor === null ? undefined : (stored.get(cursor) ?? positionByIdTime(cursor, shiftMs));
  const after = find(page.after, backwardsMs);
  const before = find(page.before, -backwardsMs);
  const bounds = [
    ...(after === undefined ? [] : [{ is: symbol(page.order, 'after'), position: after }]),
    ...(before === undefined ? [] : [{ is: symbol(page.order, 'before'), position: before }]),
  ];
  const reads = readDirection(page);
  const direction = reads === 'asc' ? sql`asc` : sql`desc`;
  return {
    where: allOf(bounds.map(({ is, position }) => sql`${key} ${is} ${at(position)}`)),
    spans: (of) => allOf(bounds.map(({ is, position }) => sql`${of} ${is}= ${position.time}::timestamptz`)),
    orderBy: sql`${sql.ref(`${alias}.${time}`)} ${direction}, ${sql.ref(`${alias}.id`)} ${direction}`,
    inOrder: (rows) => (reads === page.order ? rows : [...rows].reverse()),
  };
}

/** The direction in which a page is read: backwards from `before`, so that the items next to it are the ones found. */
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

async function findStoredPositions(
  db: Database,
  table: ListedTable,
  time: 'created_at' | 'updated_at',
  cursors: readonly (string | null)[],
): Promise<ReadonlyMap<string, Position>> {
  const ids = cursors.filter((cursor) => cursor !== null);
  if (ids.length === 0) return new Map();
  const { rows } = await sql<Position>`
    select id, ${sql.ref(time)}::text as time from ${sql.table(table)} where id = any(${ids}::uuid[])
  `.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}

/** About when a UUIDv7 was made, moved by so much; undefined for an id of another version. */
function positionByIdTime(id: string, shiftMs: number): Position | undefined {
  if (id[14] !== '7') return undefined;
  const madeAtMs = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
  // JavaScript marks a year of five digits, which the database only knows unmarked.
  return { id, time: new Date(madeAtMs + shiftMs).toISOString().replace(/^\+0/, '') };
}
