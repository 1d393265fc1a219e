import { toStorableText, type BlockChange } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import type { Change } from './block-change.ts';

/**
 * Writes the block changes of calls in batches under review, except texts: creates the drafts, and notes each draft's
 * change to its original. The caller holds the locks of the agents.
 */
export async function writeHeldBlocks(trx: Tx, changes: readonly BlockChange[]): Promise<void> {
  const made = changes.filter(
    (change): change is Change<'copied' | 'created'> => change.kind === 'copied' || change.kind === 'created',
  );
  if (made.length > 0) await insertHolding(trx, made);
  const moved = changes.filter(
    (change): change is Change<'detached' | 'renamed'> =>
      change.kind === 'detached' || change.kind === 'renamed',
  );
  if (moved.length > 0) await noteMoves(trx, moved);
}

async function insertHolding(trx: Tx, made: readonly Change<'copied' | 'created'>[]): Promise<void> {
  const json = JSON.stringify(
    made.map((block) => ({
      p: block.project_id,
      b: block.block_id,
      a: block.agent_id,
      k: block.kind === 'copied' ? 'revised' : 'created',
      o: block.kind === 'copied' ? block.copy_of : block.block_id,
      v: block.kind === 'copied' ? block.base_revision : null,
      bl: block.kind === 'copied' ? toStorableText(block.base_label) : null,
      l: toStorableText(block.label),
      d: block.description === null ? null : toStorableText(block.description),
      t: block.value,
      c: block.char_limit,
      ro: block.kind === 'copied' && block.read_only,
      j: block.batch_id,
      r: block.run_id,
      n: block.step_number,
      u: toStorableText(block.tool_use_id),
    })),
  );
  await sql`
    insert into block (id, project_id, label, head_revision, deleted_at, held_by_batch_id)
    select b, p, l, 1, app_now(), j from json_to_recordset(${json}::json) as d(b uuid, p uuid, l text, j uuid)
  `.execute(trx);
  // A copy has no writer; the writer of a new block is the call.
  await sql`
    insert into block_revision (block_id, revision, project_id, description, value, char_limit, read_only, batch_id, run_id,
                                step_number, tool_use_id, resolution)
    select b, 1, p, d, t, c, ro, case when k = 'created' then j end, case when k = 'created' then r end,
           case when k = 'created' then n end, case when k = 'created' then u end, case when k = 'created' then 'clean' end
      from json_to_recordset(${json}::json)
        as d(b uuid, p uuid, k text, d text, t text, c int, ro boolean, j uuid, r uuid, n int, u text)
  `.execute(trx);
  await sql`
    insert into held_change (batch_id, agent_id, block_id, project_id, draft_id, kind, base_revision, base_label, run_id,
                             step_number, tool_use_id)
    select j, a, o, p, b, k, v, bl, r, n, u
      from json_to_recordset(${json}::json)
        as d(j uuid, a uuid, o uuid, p uuid, b uuid, k text, v int, bl text, r uuid, n int, u text)
  `.execute(trx);
}

/** Drops a new block that is detached again: nothing is left to accept. */
async function noteMoves(trx: Tx, moved: readonly Change<'detached' | 'renamed'>[]): Promise<void> {
  const last = new Map<string, { d: boolean; l: string | null; r: string; n: number; u: string }>();
  for (const change of moved) {
    last.set(change.block_id, {
      d: change.kind === 'detached',
      l:
        change.kind === 'renamed' ? toStorableText(change.new_label) : (last.get(change.block_id)?.l ?? null),
      r: change.run_id,
      n: change.step_number,
      u: toStorableText(change.tool_use_id),
    });
  }
  const json = JSON.stringify([...last].map(([b, move]) => ({ b, ...move })));
  await sql`
    update block b set label = d.l, updated_at = app_now()
      from json_to_recordset(${json}::json) as d(b uuid, l text) where b.id = d.b and d.l is not null
  `.execute(trx);
  await sql`
    update held_change h
       set kind = case when not d.d then h.kind when h.kind = 'created' then 'dropped' else 'detached' end,
           run_id = d.r, step_number = d.n, tool_use_id = d.u
      from json_to_recordset(${json}::json) as d(b uuid, d boolean, r uuid, n int, u text)
     where h.draft_id = d.b
  `.execute(trx);
}
