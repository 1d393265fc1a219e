import type {} from '../../../../test/global-setup.ts';
import {
  auditInvariants,
  DEFAULT_PROJECT_ID,
  deleteAgent,
  encodeLines,
  inTransaction,
  listSkippedAgents,
  newId,
  openUpload,
  readBatch,
  stageLines,
  type Database,
} from '@nightshift/db';
import { storeLines } from '@nightshift/intake/testing';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps, HookPoint } from '../../src/flow-parts/deps.ts';
import { acceptBatch } from '../../src/flows/accept-batch/accept-batch.ts';
import { cancelBatch } from '../../src/flows/cancel-batch/cancel-batch.ts';
import { findDueFlows } from '../../src/flows/find-due-flows.ts';
import { sweep } from '../../src/flows/sweep/sweep.ts';
import { openHouse, type House } from './house.ts';

let house: House;
let db: Database;
let worker: FlowDeps;
let agents: readonly string[];
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  ({ db } = house.database);
  worker = house.worker();
  ({ agent_ids: agents } = await house.submit([{ input: 'Hello.' }, { input: 'Hello.' }]));
  await house.drive(worker);
});
afterEach(async () => {
  expect(await auditInvariants(db)).toEqual([]);
  await house.close();
});

const batchOf = (id: string) => readBatch(db, DEFAULT_PROJECT_ID, id);
const requests = (count: number) =>
  Array.from({ length: count }, (_, n) => ({
    ...{ agent_id: agents[n % 2] ?? '', input: `Task ${n}`, custom_id: `t-${n}` },
    conversation: 'isolated' as const,
  }));
const runsOf = (id: string) =>
  house.rows<{ ordinal: number; custom_id: string; text: string }>(
    `select r.ordinal, r.custom_id, m.content->0->>'text' as text from run r
       join message m on m.conversation_id = r.conversation_id and m.seq = r.first_seq
      where r.batch_id = $1 order by r.id`,
    [id],
  );
const stagedOf = async (id: string) =>
  (await house.rows<{ count: number }>('select count(*)::int from staged_line where batch_id = $1', [id]))[0]
    ?.count;

/** A worker that dies at a hook. */
const dyingAt = (point: HookPoint, count: number): FlowDeps => {
  let left = count;
  return house.worker({
    hooks: (at) => {
      if (at === point && --left === 0) throw new Error('the power went out');
    },
  });
};

describe('a batch of staged lines', () => {
  test('gets a run per line in order, in portions that take their lines away, and runs to its end', async () => {
    const id = await storeLines(db, requests(1_100));
    const seen: unknown[] = [];
    const watching = house.worker({
      hooks: async (point) => {
        if (point !== 'accept.after_commit') return;
        const { state, accepted } = await batchOf(id);
        seen.push([state, accepted, await stagedOf(id)]);
        expect(await auditInvariants(db)).toEqual([]);
      },
    });
    await acceptBatch(watching);
    expect(seen).toEqual([
      ['receiving', 500, 600],
      ['receiving', 1_000, 100],
      ['receiving', 1_100, 0],
      ['running', 1_100, 0],
    ]);
    expect(await runsOf(id)).toEqual(
      requests(1_100).map(({ custom_id, input }, ordinal) => ({ ordinal, custom_id, text: input })),
    );
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', total: 1_100, completed: 1_100 });
  });

  test.each([
    ['before the commit of its second portion', 'accept.before_commit', 500],
    ['after the commit of its second portion', 'accept.after_commit', 1_000],
  ] as const)('goes on behind the last portion when its worker dies %s', async (_name, point, accepted) => {
    const id = await storeLines(db, requests(1_100));
    const dying = dyingAt(point, 2);
    await expect(acceptBatch(dying)).rejects.toThrow('the power went out');
    await house.bury(dying);
    expect(await batchOf(id)).toMatchObject({ state: 'receiving', accepted });
    expect(await stagedOf(id)).toBe(1_100 - accepted);
    await house.hasten();
    await house.drive(worker);
    expect((await runsOf(id)).map(({ custom_id }) => custom_id)).toEqual(
      requests(1_100).map(({ custom_id }) => custom_id),
    );
    expect(await batchOf(id)).toMatchObject({ state: 'completed', completed: 1_100 });
  });

  test('keeps the runs stored so far when it is cancelled meanwhile, and no line', async () => {
    const id = await storeLines(db, requests(1_100));
    const cancelling = house.worker({
      hooks: async (point) => {
        if (point === 'accept.after_commit' && (await batchOf(id)).accepted === 500) await house.cancel(id);
      },
    });
    expect(await acceptBatch(cancelling)).toMatchObject({ outcome: 'gone', runs: 500 });
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'cancelled', total: 500, cancelled: 500 });
    expect(await stagedOf(id)).toBe(0);
  });

  test('is cancelled before its first run', async () => {
    const id = await storeLines(db, requests(10));
    await house.cancel(id);
    await cancelBatch(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'cancelled', total: 0 });
    expect(await stagedOf(id)).toBe(0);
  });

  test('skips the lines of an agent that was deleted since, and lists the agent once', async () => {
    const id = await storeLines(db, requests(7));
    await inTransaction(db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, agents[1] ?? ''));
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({
      ...{ state: 'completed', total: 4, completed: 4 },
      skipped: { agent_deleted: 3 },
    });
    expect((await runsOf(id)).map(({ ordinal, custom_id }) => [ordinal, custom_id])).toEqual([
      [0, 't-0'],
      [1, 't-2'],
      [2, 't-4'],
      [3, 't-6'],
    ]);
    expect(await listSkippedAgents(db, id, { after: null, limit: 10, reason: null })).toEqual([
      { agent_id: agents[1], reason: 'agent_deleted' },
    ]);
  });

  test('skips lines whose agent no longer fits: a tool of the same name, and no price for a cap', async () => {
    const lines = requests(4).map((line, n) =>
      n === 1
        ? { ...line, client_tools: [{ name: 'core_memory_append' }] }
        : n === 2
          ? { ...line, max_cost_usd: 1 }
          : line,
    );
    const id = await storeLines(db, lines);
    await house.rows(
      `insert into agent_tool (agent_id, tool_id, position, project_id)
       select $1, id, 99, project_id from tool where name = 'core_memory_append'`,
      [agents[1]],
    );
    await house.rows(`update agent set model = 'anthropic/claude-unpriced' where id = $1`, [agents[0]]);
    await acceptBatch(worker);
    expect(await batchOf(id)).toMatchObject({ accepted: 2, skipped: { unusable_tools: 1, no_price: 1 } });
    await house.cancel(id);
    await house.drive(worker, { hasten: true });
  });

  test("takes turns in its agents' conversations unless lines ask for their own, under caps and deadlines", async () => {
    const lines = requests(4).map(({ conversation: _, ...line }, n) => ({
      ...line,
      ...(n === 0 ? { deadline: '2990-01-01T00:00:00.000Z' } : {}),
      ...(n === 1 ? { max_output_tokens: 5_000 } : {}),
    }));
    const id = await storeLines(db, lines, { deadline: '2999-01-01T00:00:00.000Z', max_cost_usd: 50 });
    await acceptBatch(worker);
    const rows = await house.rows<{ state: string; deadline: string; cap: number | null }>(
      `select state, to_char(deadline_at, 'YYYY') as deadline, max_output_tokens as cap from run where batch_id = $1 order by ordinal`,
      [id],
    );
    expect(rows.map(({ state, deadline, cap }) => [state, deadline, cap])).toEqual([
      ['ready', '2990', null],
      ['ready', '2999', 5_000],
      ['queued', '2999', null],
      ['queued', '2999', null],
    ]);
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', completed: 4 });
  });

  test('does not run with fewer runs than it had lines when lines are lost', async () => {
    const id = await storeLines(db, requests(600));
    await house.rows('delete from staged_line where batch_id = $1 and ordinal >= 500', [id]);
    await expect(acceptBatch(worker)).rejects.toThrow(
      `Batch ${id} has 600 lines, but no line is staged after 500`,
    );
    expect(await batchOf(id)).toMatchObject({ state: 'receiving', accepted: 500 });
    await house.cancel(id);
    await house.drive(worker, { hasten: true });
    expect(await batchOf(id)).toMatchObject({ state: 'cancelled', total: 500 });
  });

  test('sends its pilot first', async () => {
    const id = await storeLines(db, requests(600), { pilot: { runs: 3, then: 'pause' } });
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'paused', completed: 3 });
    await house.cancel(id);
    await house.drive(worker, { hasten: true });
  });

  test('of a template has its shared fields and the text of each line', async () => {
    const template = { agent_id: agents[0] ?? '', input: 'Hi {{ name }}', max_steps: 3 };
    const id = await storeLines(
      db,
      ['Ann', 'Bo'].map((name) => ({ custom_id: name, variables: { name } })),
      { template },
    );
    await house.drive(worker);
    expect(await runsOf(id)).toEqual([
      { ordinal: 0, custom_id: 'Ann', text: 'Hi Ann' },
      { ordinal: 1, custom_id: 'Bo', text: 'Hi Bo' },
    ]);
    expect(await house.rows('select distinct max_steps from run where batch_id = $1', [id])).toEqual([
      { max_steps: 3 },
    ]);
  });

  test('is accepted in portions of bounded bytes', async () => {
    const content = 'x'.repeat(1024 * 1024);
    const messages = Array.from({ length: 5 }, () => ({ role: 'user' as const, content }));
    const id = await storeLines(db, [
      ...requests(3).map((line) => ({ ...line, input: null, messages })),
      ...requests(4).slice(3),
    ]);
    const seen: number[] = [];
    const watching = house.worker({
      hooks: async (point) => {
        if (point === 'accept.after_commit') seen.push((await batchOf(id)).accepted);
      },
    });
    await acceptBatch(watching);
    expect(seen).toEqual([2, 4, 4]);
    await house.cancel(id);
    await house.drive(worker, { hasten: true });
  });
});

describe('an upload whose API has died', () => {
  const leave = async () => {
    const id = newId();
    await openUpload(db, DEFAULT_PROJECT_ID, id);
    const key = { batch_id: id, project_id: DEFAULT_PROJECT_ID };
    const lines = Array.from({ length: 3 }, () => ({ custom_id: null, run: '{}' }));
    await stageLines(db, [encodeLines(key, 0, lines)]);
    return id;
  };
  const age = (id: string, hours: number) =>
    house.rows(`update upload set started_at = app_now() - $2 * interval '1 hour' where batch_id = $1`, [
      id,
      hours,
    ]);

  test('is dropped with its lines after a day, by a sweep that the look finds due', async () => {
    const [old, fresh] = [await leave(), await leave()];
    await age(fresh, 23);
    expect(await findDueFlows(worker)).not.toContain('sweep');
    await age(old, 25);
    expect(await findDueFlows(worker)).toContain('sweep');
    await sweep(worker);
    expect(await house.rows('select batch_id from upload')).toEqual([{ batch_id: fresh }]);
    expect([await stagedOf(old), await stagedOf(fresh)]).toEqual([0, 3]);
  });
});
