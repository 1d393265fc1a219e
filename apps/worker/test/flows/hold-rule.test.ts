import type {} from '../../../../test/global-setup.ts';
import { acceptHeldChanges, auditInvariants, DEFAULT_PROJECT_ID, inTransaction } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { finishBatch } from '../../src/flows/finish-batch/finish-batch.ts';
import type { FlowDeps, Hooks } from '../../src/flow-parts/deps.ts';
import { call, openHouse, type House, type SubmittedBatch, type SubmittedRun } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

const OLD = 'x'.repeat(100);
const rethink = (new_memory: string, label = 'notes') => call('memory_rethink', { label, new_memory });
const ofAgent = (input: string, rest: Partial<SubmittedRun> = {}): SubmittedRun => ({
  input,
  blocks: { notes: OLD },
  tools: ['memory', 'memory_rethink', 'archival_memory_insert'],
  ...rest,
});
const submit = (runs: readonly SubmittedRun[]) =>
  house.submit(runs, { apply: 'review', hold_if: { shrinks_by: 0.6 } });

/** Reads the notes in force of every agent of a batch, and the states of its held changes. */
async function notesOf(batch: SubmittedBatch) {
  const rows = await house.rows<{ agent_id: string; value: string | null; states: string[] }>(
    `select a.id as agent_id, (
              select r.value from agent_block k join block b on b.id = k.block_id
                join block_revision r on r.block_id = b.id and r.revision = b.head_revision
               where k.agent_id = a.id and k.label = 'notes') as value,
            array(select h.state from held_change h where h.batch_id = $2 and h.agent_id = a.id) as states
       from agent a where a.id = any($1)`,
    [batch.agent_ids, batch.id],
  );
  return batch.agent_ids.map((id) => {
    const row = rows.find(({ agent_id }) => agent_id === id);
    return [row?.value ?? null, ...(row?.states ?? [])];
  });
}
const stateOf = async (batch: SubmittedBatch) =>
  (await house.rows<{ state: string }>('select state from batch where id = $1', [batch.id]))[0]?.state;

/** Hooks that edit the notes of an agent after the first answers are applied. */
function editing(agentId: () => string): Hooks {
  let isDone = false;
  return async (point) => {
    if (point !== 'ingest.after_commit' || isDone) return;
    isDone = true;
    await house.rows(
      `with moved as (update block b set head_revision = 2 from agent_block k
                       where k.agent_id = $1 and b.id = k.block_id returning b.id)
       insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on)
       select r.block_id, 2, r.project_id, 'by hand', r.char_limit, false, 1
         from moved join block_revision r on r.block_id = moved.id`,
      [agentId()],
    );
  };
}

test('the end of a batch accepts all agents’ changes but those that shrink a block by more, or are in conflict', async () => {
  const passage = call('archival_memory_insert', { content: 'Kept.' });
  const batch = await submit([
    ofAgent(rethink('y'.repeat(150))),
    ofAgent(rethink('y'.repeat(40))),
    ofAgent(`${rethink('y'.repeat(39))}\n${passage}`),
    ofAgent(call('memory', { command: 'delete', path: 'notes' })),
    ofAgent(rethink('y'.repeat(99))),
    ofAgent(call('memory', { command: 'create', path: 'more', description: 'd', file_text: 'new' })),
    ofAgent(passage),
    ofAgent('Nothing. ⟦sim:fixed⟧'),
  ]);
  const worker = house.worker({ hooks: editing(() => batch.agent_ids[4] ?? '') });
  const reports = await house.drive(worker);
  expect(reports.find(({ flow }) => flow === 'finish-batch')).toMatchObject({
    state: 'completed',
    accepted: 3,
    held_agents: 3,
  });
  expect(await notesOf(batch)).toEqual([
    ['y'.repeat(150), 'accepted'],
    ['y'.repeat(40), 'accepted'],
    [OLD, 'held'],
    [OLD, 'held'],
    ['by hand', 'held'],
    [OLD, 'accepted'],
    [OLD],
    [OLD],
  ]);
  const passages = await house.rows<{ agent_id: string; is_held: boolean }>(
    'select agent_id, held_by_batch_id is not null as is_held from passage',
  );
  expect(new Map(passages.map(({ agent_id, is_held }) => [agent_id, is_held]))).toEqual(
    new Map([
      [batch.agent_ids[2], true],
      [batch.agent_ids[6], false],
    ]),
  );
  // A person decides about the rest.
  const report = await inTransaction(house.database.db, (trx) =>
    acceptHeldChanges(trx, DEFAULT_PROJECT_ID, batch.id, { agent_ids: null, block_ids: null }),
  );
  expect(report).toMatchObject({ accepted: 2, passages: 1, stale: [{ reason: 'edited' }] });
});

test('a worker killed between portions leaves accepted ones, and the next worker accepts the others once', async () => {
  const batch = await submit(Array.from({ length: 7 }, (_, index) => ofAgent(rethink(`${OLD}${index}`))));
  /** Works until the given commit of a finish, where a worker loses its power. */
  const dieAt = async (commit: number, work: (worker: FlowDeps) => Promise<unknown>) => {
    let commits = 0;
    const hooks: Hooks = (point) => {
      if (point !== 'finish.before_commit' || ++commits < commit) return;
      dying.leases.close();
      throw new Error('killed');
    };
    const dying: FlowDeps = house.worker({ hooks });
    await expect(work(dying)).rejects.toThrow('killed');
    await house.bury(dying);
    await house.hasten();
  };
  await dieAt(1, (worker) => house.drive(worker));
  expect((await notesOf(batch)).every(([, state]) => state === 'held')).toBe(true);
  await dieAt(3, (worker) => finishBatch(worker, 2));
  expect(await stateOf(batch)).toBe('running');
  const settled = (await notesOf(batch)).filter(([, state]) => state === 'accepted');
  expect(settled).toHaveLength(4);
  expect(await finishBatch(house.worker(), 2)).toMatchObject({
    state: 'completed',
    accepted: 3,
    held_agents: 0,
  });
  expect(await notesOf(batch)).toEqual(batch.agent_ids.map((_, index) => [`${OLD}${index}`, 'accepted']));
  const revisions = await house.rows(
    `select max(r.revision) as revision from block_revision r join block b on b.id = r.block_id
      where b.held_by_batch_id is null`,
  );
  expect(revisions).toEqual([{ revision: 2 }]);
});

test('a cancelled batch holds everything', async () => {
  const batch = await submit([ofAgent(rethink('y'.repeat(150))), ofAgent(rethink('z'.repeat(150)))]);
  let isCancelled = false;
  const hooks: Hooks = async (point) => {
    if (point !== 'ingest.after_commit' || isCancelled) return;
    isCancelled = true;
    await house.cancel(batch.id);
  };
  await house.drive(house.worker({ hooks }));
  expect(await stateOf(batch)).toBe('cancelled');
  expect(await notesOf(batch)).toEqual([
    [OLD, 'held'],
    [OLD, 'held'],
  ]);
});
