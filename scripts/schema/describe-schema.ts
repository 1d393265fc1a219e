import type pg from 'pg';

/**
 * Describes a migrated schema as SQL that can be run: tables by name with their columns in order, then
 * constraints and indexes by name, foreign keys last. Equal schemas give equal texts. Kysely's own tables are
 * left out.
 */

const HEADER = `-- The schema as the migrations leave it, for review. Made by \`npm run dump-schema\`; never edited by hand.
-- It can be run in an empty database, but it holds no rows and no record of migrations: use the migrate step for that.
`;

/** A pool or a connection. */
type Queryable = Pick<pg.Pool, 'query'>;

/** Describes the schema `public`. */
export async function describeSchema(db: Queryable): Promise<string> {
  const tables = await readRows<TableRow>(db, TABLES);
  const columns = Map.groupBy(await readRows<ColumnRow>(db, COLUMNS), (row) => row.table);
  const constraints = await readRows<ConstraintRow>(db, CONSTRAINTS);
  const inner = Map.groupBy(
    constraints.filter((row) => row.kind !== 'f'),
    (row) => row.table,
  );
  const indexes = Map.groupBy(await readRows<IndexRow>(db, INDEXES), (row) => row.table);
  const functions = await readRows<{ definition: string }>(db, FUNCTIONS);
  const triggers = await readRows<{ definition: string }>(db, TRIGGERS);
  const foreignKeys = constraints.filter((row) => row.kind === 'f');
  return [
    HEADER,
    ...functions.map((row) => `${row.definition.trim()};\n`),
    ...tables.map((table) =>
      describeTable(
        table,
        columns.get(table.name) ?? [],
        inner.get(table.name) ?? [],
        indexes.get(table.name) ?? [],
      ),
    ),
    foreignKeys
      .map((row) => `alter table ${row.table} add constraint ${row.name} ${row.definition};\n`)
      .join(''),
    ...(triggers.length === 0 ? [] : [triggers.map((row) => `${row.definition};\n`).join('')]),
  ].join('\n');
}

interface TableRow {
  readonly name: string;
  readonly options: readonly string[] | null;
}

interface ColumnRow {
  readonly table: string;
  readonly name: string;
  readonly type: string;
  readonly not_null: boolean;
  readonly default: string | null;
  /** Whether `default` holds a generation expression. */
  readonly generated: boolean;
}

interface ConstraintRow {
  readonly table: string;
  readonly name: string;
  readonly kind: string;
  readonly definition: string;
}

interface IndexRow {
  readonly table: string;
  readonly definition: string;
}

const OURS = `n.nspname = 'public' and c.relname not like 'kysely\\_%'`;

const TABLES = `
  select c.relname as name, c.reloptions as options
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where c.relkind = 'r' and ${OURS}
   order by c.relname collate "C"`;

const COLUMNS = `
  select c.relname as "table", a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as not_null,
         pg_get_expr(d.adbin, d.adrelid) as default, a.attgenerated = 's' as generated
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
   where c.relkind = 'r' and a.attnum > 0 and not a.attisdropped and ${OURS}
   order by c.relname collate "C", a.attnum`;

/** Not-null constraints appear with their columns. */
const CONSTRAINTS = `
  select c.relname as "table", k.conname as name, k.contype as kind, pg_get_constraintdef(k.oid) as definition
    from pg_constraint k
    join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
   where k.contype in ('p', 'u', 'c', 'f', 'x') and ${OURS}
   order by c.relname collate "C", array_position('{p,u,c,x,f}'::"char"[], k.contype), k.conname collate "C"`;

const INDEXES = `
  select c.relname as "table", pg_get_indexdef(i.indexrelid) as definition
    from pg_index i
    join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
    join pg_class x on x.oid = i.indexrelid
   where ${OURS} and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x'))
   order by c.relname collate "C", x.relname collate "C"`;

const FUNCTIONS = `
  select pg_get_functiondef(p.oid) as definition
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
   where n.nspname = 'public'
   order by p.proname collate "C", pg_get_function_identity_arguments(p.oid) collate "C"`;

const TRIGGERS = `
  select pg_get_triggerdef(t.oid) as definition
    from pg_trigger t
    join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
   where not t.tgisinternal and ${OURS}
   order by c.relname collate "C", t.tgname collate "C"`;

async function readRows<T>(db: Queryable, text: string): Promise<readonly T[]> {
  const { rows } = await db.query(text);
  return rows as readonly T[];
}

function describeTable(
  table: TableRow,
  columns: readonly ColumnRow[],
  constraints: readonly ConstraintRow[],
  indexes: readonly IndexRow[],
): string {
  const lines = [
    ...columns.map((column) =>
      [column.name, column.type, column.not_null ? 'not null' : '', defaultOf(column)]
        .filter((word) => word !== '')
        .join(' '),
    ),
    ...constraints.map((row) => `constraint ${row.name} ${row.definition}`),
  ];
  const options = table.options === null ? '' : ` with (${table.options.join(', ')})`;
  const body = lines.map((line) => `  ${line}`).join(',\n');
  return [
    `create table ${table.name} (\n${body}\n)${options};\n`,
    ...indexes.map((row) => `${row.definition};\n`),
  ].join('');
}

function defaultOf({ default: expression, generated }: ColumnRow): string {
  if (expression === null) return '';
  return generated
    ? `generated always as (${expression.replace(/\s+/g, ' ').trim()}) stored`
    : `default ${expression}`;
}
