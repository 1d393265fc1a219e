import type { StepKey } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../connect.ts';

/** A block as the request of a step showed it. */
export interface ShownBlock {
  readonly run_id: string;
  readonly block_id: string;
  /** The revision that the request showed. */
  readonly revision: number;
  /** What that revision holds; null where the head holds the same. */
  readonly value: string | null;
}

/**
 * The blocks that the requests of steps showed. Read once the blocks are locked, in a later statement, so that the heads
 * stand. A text that many steps showed is sent once. Served by the primary keys of step, block and block_revision.
 */
export async function readShownBlocks(trx: Tx, steps: readonly StepKey[]): Promise<readonly ShownBlock[]> {
  if (steps.length === 0) return [];
  const { rows } = await sql<ShownBlock & { readonly differs: boolean }>`
    select s.run_id, u.block_id, u.revision, shown.value <> head.value as differs,
           case when shown.value <> head.value
                 and row_number() over (partition by u.block_id, u.revision) = 1 then shown.value end as value
      from json_to_recordset(${JSON.stringify(steps)}::json) as d(run_id uuid, number int, attempt int)
      join step s on s.run_id = d.run_id and s.number = d.number and s.attempt = d.attempt
     cross join lateral unnest(s.block_ids, s.block_revisions) as u(block_id, revision)
      join block b on b.id = u.block_id
      join block_revision shown on shown.block_id = u.block_id and shown.revision = u.revision
      join block_revision head on head.block_id = b.id and head.revision = b.head_revision
  `.execute(trx);
  const key = (row: ShownBlock): string => `${row.block_id}/${row.revision}`;
  const texts = new Map(rows.flatMap((row) => (row.value === null ? [] : [[key(row), row.value] as const])));
  return rows.map(({ run_id, block_id, revision, differs, ...row }) => {
    const text = differs ? texts.get(key({ run_id, block_id, revision, ...row })) : undefined;
    return { run_id, block_id, revision, value: text ?? null };
  });
}
