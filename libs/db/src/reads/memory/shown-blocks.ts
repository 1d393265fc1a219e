import type { EditedBlock, OwnText, ShownBlock, StepKey } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/**
 * Reads the blocks shown by the requests of steps. The caller has locked the blocks in an earlier statement, so that heads
 * are stable. Repeated texts are sent once. Index: primary keys of step, block and block_revision.
 */
export async function readShownBlocks(trx: Tx, steps: readonly StepKey[]): Promise<readonly ShownBlock[]> {
  if (steps.length === 0) return [];
  const { rows } = await sql<ShownBlock & { readonly differs: boolean }>`
    select run_id, block_id, revision, label, differs, case when differs and is_first then value end as value,
           case when differs and is_first then description end as description
      from (
        select s.run_id, u.block_id, u.revision, coalesce(u.label, b.label) as label, shown.value, shown.description,
               (shown.value, shown.description) is distinct from (head.value, head.description) as differs,
               row_number() over (partition by u.block_id, u.revision) = 1 as is_first
          from json_to_recordset(${JSON.stringify(steps)}::json) as d(run_id uuid, number int, attempt int)
          join step s on s.run_id = d.run_id and s.number = d.number and s.attempt = d.attempt
         cross join lateral unnest(s.block_ids, s.block_revisions, s.block_labels) as u(block_id, revision, label)
          join block b on b.id = u.block_id
          join block_revision shown on shown.block_id = u.block_id and shown.revision = u.revision
          join block_revision head on head.block_id = b.id and head.revision = b.head_revision) k
  `.execute(trx);
  const key = (row: Pick<ShownBlock, 'block_id' | 'revision'>): string => `${row.block_id}/${row.revision}`;
  const texts = new Map(rows.flatMap((row) => (row.value === null ? [] : [[key(row), row] as const])));
  return rows.map(({ differs, ...row }) => {
    const { value = null, description = null } = (differs ? texts.get(key(row)) : null) ?? {};
    return { ...row, value, description };
  });
}

/**
 * Reads the last text that each run wrote into a block since its request, if the run wrote all of it. Merged texts are left
 * out, and so are blocks that were neither shown to the run nor created by it. Only for runs whose step was carried out in
 * part before.
 * Index: primary key of `block_revision`, from the head on.
 */
export async function readOwnTexts(trx: Tx, blocks: readonly EditedBlock[]): Promise<readonly OwnText[]> {
  if (blocks.length === 0) return [];
  const { rows } = await sql<OwnText>`
    select d.run_id, d.block_id, own.revision, own.value
      from json_to_recordset(${JSON.stringify(blocks)}::json)
        as d(run_id uuid, step_number int, block_id uuid, shown int)
     cross join lateral (
       select r.revision, r.value, r.resolution
         from block_revision r
         left join block_revision p on p.block_id = r.block_id and p.revision = r.revision - 1
        where r.block_id = d.block_id and r.revision > d.shown and r.run_id = d.run_id and r.step_number = d.step_number
          and r.value is distinct from p.value
        order by r.revision desc limit 1) own
     where own.resolution <> 'merged'
       and (d.shown > 0 or exists (
         select from block_revision f
          where f.block_id = d.block_id and f.revision = 1 and f.run_id = d.run_id and f.step_number = d.step_number))
  `.execute(trx);
  return rows;
}
