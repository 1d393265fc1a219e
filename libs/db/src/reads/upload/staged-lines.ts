import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** A staged line, with its run as `stageLines` got it. */
export interface StagedLineRow {
  readonly ordinal: number;
  readonly custom_id: string | null;
  readonly run: unknown;
}

/** Reads staged lines from an ordinal on, at most `bytesMax` beyond the first. Index: primary key. */
export async function readStagedLines(
  db: Database,
  batchId: string,
  from: number,
  limits: LineLimits,
): Promise<readonly StagedLineRow[]> {
  const { rows } = await sql<StagedLineRow>`
    select l.ordinal, l.custom_id, l.run
      from (${nextLines(batchId, from, limits)}) n
      join staged_line l on l.batch_id = ${batchId}::uuid and l.ordinal = n.ordinal
     order by l.ordinal
  `.execute(db);
  return rows;
}

/** Limits of a portion of lines. */
export interface LineLimits {
  readonly lines: number;
  readonly bytes: number;
}

/** Selects the ordinals of the next lines: as many as fit, and at least one. A bound instead of a limit, as for agents. */
export function nextLines(batchId: string, from: number, { lines, bytes }: LineLimits) {
  return sql`
    select ordinal from (
      select ordinal, sum(bytes) over (order by ordinal) - bytes as before from staged_line
       where batch_id = ${batchId}::uuid and ordinal >= ${from} and ordinal < ${from + lines}) s
     where before < ${bytes}`;
}
