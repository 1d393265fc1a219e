import { toStorableText, type BlockChange } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { ofKind, type Change } from './block-change.ts';
import { writeHeldBlocks } from './held-blocks.ts';
import { insertPassages } from './passages.ts';

/**
 * Writes the block changes of tool calls, in call order, with one statement per kind that occurs.
 * Revisions must follow the heads without a gap. The caller holds the locks of the blocks, and of the agents if blocks are
 * created, detached or renamed.
 */
export async function writeBlockChanges(trx: Tx, changes: readonly BlockChange[]): Promise<void> {
  if (changes.length === 0) return;
  const held = changes.filter((change) => change.held);
  const inForce = held.length === 0 ? changes : changes.filter((change) => !change.held);
  const created = ofKind(inForce, 'created');
  const detached = ofKind(inForce, 'detached');
  const renamed = ofKind(inForce, 'renamed');
  if (held.length > 0) await writeHeldBlocks(trx, held);
  if (detached.length > 0) await deleteAttachments(trx, detached);
  if (created.length > 0) await insertBlocks(trx, created);
  if (renamed.length > 0) await moveLabels(trx, renamed);
  if (created.length > 0) await attachCreated(trx, created, detached);
  await insertRevisions(trx, ofKind(changes, 'revised'));
  await insertPassages(trx, ofKind(changes, 'kept'));
  const events = inForce.filter(
    (change) => change.kind === 'created' || change.kind === 'detached' || change.kind === 'renamed',
  );
  if (events.length > 0) await insertEvents(trx, events);
}

async function deleteAttachments(trx: Tx, detached: readonly Change<'detached'>[]): Promise<void> {
  const payload = detached.map(({ agent_id, block_id }) => ({ a: agent_id, b: block_id }));
  await sql`
    delete from agent_block k using json_to_recordset(${JSON.stringify(payload)}::json) as d(a uuid, b uuid)
     where k.agent_id = d.a and k.block_id = d.b
  `.execute(trx);
}

async function insertBlocks(trx: Tx, created: readonly Change<'created'>[]): Promise<void> {
  const json = JSON.stringify(
    created.map((block) => ({
      p: block.project_id,
      b: block.block_id,
      l: toStorableText(block.label),
      d: block.description === null ? null : toStorableText(block.description),
      t: block.value,
      c: block.char_limit,
      j: block.batch_id,
      r: block.run_id,
      n: block.step_number,
      u: toStorableText(block.tool_use_id),
    })),
  );
  await sql`
    insert into block (id, project_id, label, head_revision)
    select b, p, l, 1 from json_to_recordset(${json}::json) as d(b uuid, p uuid, l text)
  `.execute(trx);
  await sql`
    insert into block_revision (block_id, revision, project_id, description, value, char_limit, read_only, batch_id, run_id,
                                step_number, tool_use_id, resolution)
    select b, 1, p, d, t, c, false, j, r, n, u, 'clean'
      from json_to_recordset(${json}::json)
        as d(b uuid, p uuid, d text, t text, c int, j uuid, r uuid, n int, u text)
  `.execute(trx);
}

/** Writes the last label of each block and its agents. Blocks may swap labels, so uniqueness is checked at the end. */
async function moveLabels(trx: Tx, renamed: readonly Change<'renamed'>[]): Promise<void> {
  const last = new Map(renamed.map(({ block_id, new_label }) => [block_id, toStorableText(new_label)]));
  const payload = [...last].map(([b, l]) => ({ b, l }));
  await sql`set constraints agent_block_agent_id_label_key deferred`.execute(trx);
  await sql`
    update block b set label = d.l, updated_at = app_now()
      from json_to_recordset(${JSON.stringify(payload)}::json) as d(b uuid, l text)
     where b.id = d.b
  `.execute(trx);
}

/** Attaches to agents the blocks that they created and have not detached, after their other blocks. */
async function attachCreated(
  trx: Tx,
  created: readonly Change<'created'>[],
  detached: readonly Change<'detached'>[],
): Promise<void> {
  const givenUp = new Set(detached.map(({ agent_id, block_id }) => `${agent_id}/${block_id}`));
  const payload = created.flatMap(({ agent_id, block_id }, place) =>
    givenUp.has(`${agent_id}/${block_id}`) ? [] : [{ a: agent_id, b: block_id, n: place }],
  );
  await sql`
    insert into agent_block (agent_id, block_id, label, project_id, position)
    select d.a, b.id, b.label, b.project_id,
           d.n + coalesce((select max(k.position) + 1 from agent_block k where k.agent_id = d.a), 0)
      from json_to_recordset(${JSON.stringify(payload)}::json) as d(a uuid, b uuid, n int) join block b on b.id = d.b
  `.execute(trx);
}

async function insertRevisions(trx: Tx, revised: readonly Change<'revised'>[]): Promise<void> {
  if (revised.length === 0) return;
  const payload = revised.map((write) => ({
    b: write.block_id,
    v: write.revision,
    o: write.based_on_revision,
    t: write.value,
    d: write.description === null ? null : toStorableText(write.description),
    s: write.resolution,
    j: write.batch_id,
    r: write.run_id,
    n: write.step_number,
    u: toStorableText(write.tool_use_id),
  }));
  const { numAffectedRows } = await sql`
    with d ${AS_FIRST} (
      select * from json_to_recordset(${JSON.stringify(payload)}::json)
        as d(b uuid, v int, o int, t text, d text, s text, j uuid, r uuid, n int, u text))
    insert into block_revision (block_id, revision, project_id, description, value, char_limit, read_only, based_on,
                                batch_id, run_id, step_number, tool_use_id, resolution)
    select d.b, d.v, h.project_id, d.d, d.t, h.char_limit, h.read_only, d.o, d.j, d.r, d.n, d.u, d.s
      from d
      join block b on b.id = d.b
      join block_revision h on h.block_id = b.id and h.revision = b.head_revision
  `.execute(trx);
  if (Number(numAffectedRows ?? 0) !== revised.length) {
    throw new Error(
      `Expected to write ${revised.length} revisions of blocks, wrote ${String(numAffectedRows)}.`,
    );
  }
  const heads = JSON.stringify(payload.map(({ b, v }) => ({ b, v })));
  await sql`
    update block b set head_revision = d.v, updated_at = app_now()
      from (select b, max(v) as v from json_to_recordset(${heads}::json) as d(b uuid, v int) group by b) d
     where b.id = d.b
  `.execute(trx);
}

/** Inserts events in the given order, after the step's events of earlier commits. */
async function insertEvents(
  trx: Tx,
  events: readonly Change<'created' | 'detached' | 'renamed'>[],
): Promise<void> {
  const places = new Map<string, number>();
  const nextPlace = (runId: string): number => {
    const place = places.get(runId) ?? 0;
    places.set(runId, place + 1);
    return place;
  };
  const payload = events.map((event) => ({
    p: event.project_id,
    b: event.block_id,
    a: event.agent_id,
    k: event.kind,
    l: toStorableText(event.label),
    m: event.kind === 'renamed' ? toStorableText(event.new_label) : null,
    j: event.batch_id,
    r: event.run_id,
    n: event.step_number,
    x: nextPlace(event.run_id),
    u: toStorableText(event.tool_use_id),
  }));
  await sql`
    insert into block_event (project_id, block_id, agent_id, kind, label, new_label, batch_id, run_id, step_number, place,
                             tool_use_id)
    select p, b, a, k, l, m, j, r, n,
           x + coalesce((select max(e.place) + 1 from block_event e where e.run_id = r and e.step_number = n), 0), u
      from json_to_recordset(${JSON.stringify(payload)}::json)
        as d(p uuid, b uuid, a uuid, k text, l text, m text, j uuid, r uuid, n int, x smallint, u text)
  `.execute(trx);
}
