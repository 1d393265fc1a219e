import { sql, type Expression, type RawBuilder } from 'kysely';
import type { Database } from '../connect.ts';

/** Bytes after which a page ends, because an answer is one string, whose length the engine limits. */
export const PAGE_BYTES_MAX = 32 * 1024 * 1024;

/** A page of a list. */
export interface Listed<Row> {
  readonly rows: readonly Row[];
  /** Whether the page ended before its limit because its rows are large. */
  readonly is_cut: boolean;
}

/**
 * Reads an ordered and limited `query` up to `bytesMax`, but at least one row. Rows behind the cut never leave the database.
 * `bytes` is the size of the row `p`.
 */
export async function readCutPage<Row extends object>(
  db: Database,
  query: Expression<Row> | RawBuilder<unknown>,
  bytes: RawBuilder<unknown>,
  bytesMax = PAGE_BYTES_MAX,
): Promise<Listed<Row>> {
  const { rows } = await sql<Row & { page_rows: number; bytes_before: string }>`
    select c.* from (
      select p.*, count(*) over () as page_rows,
             coalesce(sum(${bytes}) over (rows between unbounded preceding and 1 preceding), 0) as bytes_before
        from (${query}) p) c
     where c.bytes_before < ${bytesMax}
  `.execute(db);
  return {
    rows: rows.map(({ page_rows: _rows, bytes_before: _bytes, ...row }) => row as unknown as Row),
    is_cut: rows.length < (rows[0]?.page_rows ?? 0),
  };
}
