import type {} from '../../../../test/global-setup.ts';
import {
  acceptHeldChanges,
  appendMessages,
  auditInvariants,
  DEFAULT_PROJECT_ID,
  forgetBatch,
  forgetExpiredBatches,
  inTransaction,
  listCursors,
  listRuns,
  listSteps,
  readBatch,
  readKnownProviderIds,
  readRun,
  rejectHeldChanges,
  revertBatch,
} from '@nightshift/db';
import { storeRetry } from '@nightshift/intake';
import { storeBody } from '@nightshift/intake/testing';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { acceptBatch } from '../../src/flows/accept-batch/accept-batch.ts';
import { findDueFlows } from '../../src/flows/find-due-flows.ts';
import { forgetBatches } from '../../src/flows/forget-batches/forget-batches.ts';
import type { FlowDeps, FlowReport } from '../../src/flow-parts/deps.ts';
import { call, openHouse, recording, type House, type SubmittedBatch } from './house.ts';

let house: House;
let worker: FlowDeps;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  worker = house.worker();
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

const append = (content: string) => call('core_memory_append', { label: 'notes', content });

/** Runs a batch of all kinds of runs: in their agents' conversations, isolated, in a sequence, failed, waiting. */
async function runBatch(rest: object = {}): Promise<SubmittedBatch> {
  const memory = {
    blocks: { notes: 'old' },
    tools: ['core_memory_append', 'archival_memory_insert', 'memory'],
  };
  const part = { isolated: true, rest: { sequence: 'a' } };
  const batch = await house.submit(
    [
      { ...memory, input: append('one') },
      { input: append('two'), same_agent_as: 0 },
      { ...memory, input: call('archival_memory_insert', { content: 'kept' }), isolated: true },
      {
        ...memory,
        input: call('memory', { command: 'create', path: 'plan', description: 'd', file_text: 'x' }),
      },
      { ...memory, ...part, input: append('part one') },
      { ...part, input: append('part two'), same_agent_as: 4 },
      { input: 'Stop. ⟦sim:refusal⟧', isolated: true },
    ],
    rest,
  );
  await house.drive(worker);
  await house.rows(
    `insert into tool_call_output (project_id, run_id, step_number, call_index, attempts)
     select c.project_id, c.run_id, c.step_number, c.call_index, 2 from tool_call c join run r on r.id = c.run_id
      where r.batch_id = $1 and c.ended_at is not null`,
    [batch.id],
  );
  return batch;
}

const forget = (batch: { readonly id: string }) =>
  inTransaction(house.database.db, (trx) => forgetBatch(trx, DEFAULT_PROJECT_ID, batch.id));

/** Runs the flow until it finds nothing. */
async function removeAll(on: FlowDeps = worker, runsPerPortion?: number): Promise<readonly FlowReport[]> {
  const reports: FlowReport[] = [];
  for (let calls = 0; calls < 100; calls++) {
    const report = await forgetBatches(on, runsPerPortion);
    if (!report.worked) return reports;
    reports.push(report);
  }
  throw new Error('The flow does not end.');
}

/** Reads all rows of all tables as text. */
async function readAll(): Promise<ReadonlyMap<string, readonly string[]>> {
  const tables = await house.rows<{ name: string }>(
    `select relname::text as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
      and relname not like 'kysely%' order by relname`,
  );
  const all = new Map<string, readonly string[]>();
  for (const { name } of tables) {
    const rows = await house.rows<{ row: string }>(`select t::text as row from "${name}" t order by 1`);
    all.set(
      name,
      rows.map(({ row }) => row),
    );
  }
  return all;
}

/** Reads the ids of a batch: its own, and those of its runs and of their isolated conversations. */
async function idsOf(batch: SubmittedBatch): Promise<readonly string[]> {
  const rows = await house.rows<{ id: string }>(
    `select conversation_id as id from run r where batch_id = $1
        and not exists (select 1 from agent a where a.conversation_id = r.conversation_id)`,
    [batch.id],
  );
  return [batch.id, ...batch.run_ids, ...new Set(rows.map(({ id }) => id))];
}

describe('forgetting a batch', () => {
  test('removes everything of it and only that', async () => {
    const kept = await runBatch();
    const gone = await runBatch();
    const ids = await idsOf(gone);
    const keptIds = await idsOf(kept);
    const before = await readAll();
    await forget(gone);
    await removeAll();
    const after = await readAll();
    const names = (row: string, some: readonly string[]) => some.some((id) => row.includes(id));
    for (const [table, rows] of before) {
      const left = new Set(after.get(table));
      const removed = rows.filter((row) => !left.has(row));
      if (table === 'provider_batch') continue;
      expect(
        removed.filter((row) => !names(row, ids)),
        table,
      ).toEqual([]);
      expect(
        removed.filter((row) => names(row, keptIds)),
        table,
      ).toEqual([]);
    }
    const naming = [...after].flatMap(([table, rows]) =>
      rows.some((row) => names(row, ids)) ? [table] : [],
    );
    expect(naming).toEqual([
      'block_event',
      'block_revision',
      // Until its 30 days are over.
      'event',
      'forgotten_batch',
      'forgotten_run',
      'message',
      'passage',
      // The samples of sizes, until it goes.
      'provider_batch',
    ]);
    // The agents' own conversations are complete.
    expect(
      await house.rows('select distinct run_id from message where run_id = any($1)', [gone.run_ids]),
    ).toHaveLength(3);
  });

  test('hides it from callers with the commit, while its rows are removed', async () => {
    const kept = await runBatch();
    const gone = await runBatch();
    await forget(gone);
    const { db } = house.database;
    await expect(readBatch(db, DEFAULT_PROJECT_ID, gone.id)).rejects.toThrow('There is no batch');
    await expect(readRun(db, DEFAULT_PROJECT_ID, gone.run_ids[0]!)).rejects.toThrow('There is no run');
    const page = { limit: 100, order: 'asc', after: null, before: null } as const;
    const all = { batch_id: null, agent_ids: null, custom_id: null, states: null } as const;
    const runs = await listRuns(db, DEFAULT_PROJECT_ID, page, {
      ...all,
      tool_calls_failed: null,
      stop_reasons: null,
    });
    expect(new Set(runs.rows.map(({ batch_id }) => batch_id))).toEqual(new Set([kept.id]));
    const steps = await listSteps(db, DEFAULT_PROJECT_ID, page, {
      ...{ run_id: null, agent_id: null, model: null, from: null, to: null },
    });
    expect(steps.every((step) => kept.run_ids.includes(step.run_id))).toBe(true);
  });

  test('is killed behind each portion, goes on behind it, and the books balance at each', async () => {
    const gone = await runBatch();
    await runBatch();
    await forget(gone);
    const points = ['forget.before_commit', 'forget.after_commit'] as const;
    let kills = 0;
    for (let nth = 1; ; nth++) {
      let reached = 0;
      const doomed = house.worker({
        hooks: (point) => {
          if (point === points[nth % 2] && ++reached === 1) throw new Error('killed');
        },
      });
      const ended = await removeAll(doomed, 1).then(
        () => true,
        () => false,
      );
      expect(await auditInvariants(house.database.db)).toEqual([]);
      const scope = { since: new Date(), slice: { after: null, to: null } };
      expect(await auditInvariants(house.database.db, { scope })).toEqual([]);
      if (ended) break;
      kills += 1;
      await house.bury(doomed);
      await house.rows('update forgotten_batch set next_due_at = app_now() where next_due_at > app_now()');
    }
    expect(kills).toBeGreaterThan(6);
    expect(await house.rows('select 1 from run where batch_id = $1', [gone.id])).toEqual([]);
    expect(await house.rows('select removed_at is not null as is_removed from forgotten_batch')).toEqual([
      { is_removed: true },
    ]);
  });

  test('waits for the review of its memory, then removes the drafts and keeps the accepted changes', async () => {
    const batch = await runBatch({ apply: 'review' });
    await expect(forget(batch)).rejects.toThrow('held for review');
    const none = { agent_ids: null, block_ids: null };
    await inTransaction(house.database.db, (trx) =>
      acceptHeldChanges(trx, DEFAULT_PROJECT_ID, batch.id, none),
    );
    const memory = () =>
      house.rows(
        `select k.agent_id, k.label, r.value from agent_block k join block b on b.id = k.block_id
           join block_revision r on r.block_id = b.id and r.revision = b.head_revision order by 1, 2`,
      );
    const before = await memory();
    await forget(batch);
    await removeAll();
    expect(await memory()).toEqual(before);
    expect(await house.rows('select 1 from held_change')).toEqual([]);
    expect(await house.rows('select 1 from block where held_by_batch_id is not null')).toEqual([]);
    expect(await house.rows('select content from passage')).toEqual([{ content: 'kept' }]);
  });

  test('is refused for an open and an unknown batch', async () => {
    const batch = await house.submit([{ input: 'Hello.' }]);
    await expect(forget(batch)).rejects.toMatchObject({ code: 'batch_running' });
    await expect(forget({ id: batch.run_ids[0]! })).rejects.toMatchObject({ code: 'not_found' });
    await house.drive(worker);
    await forget(batch);
    await expect(forget(batch)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('lets later runs of its agents go on in their conversations', async () => {
    const first = await runBatch();
    await forget(first);
    await removeAll();
    const [agent_id = ''] = first.agent_ids;
    await house.submit([{ input: append('three'), agent_id }]);
    await house.drive(worker);
    const rows = await house.rows<{ value: string }>(
      `select r.value from agent_block k join block b on b.id = k.block_id
         join block_revision r on r.block_id = b.id and r.revision = b.head_revision
        where k.agent_id = $1 and k.label = 'notes'`,
      [agent_id],
    );
    expect(rows[0]?.value).toMatch(/old\s+one\s+two\s+three/);
  });
});

describe('retention', () => {
  const NO_KEY = { now: new Date(), idempotency: null };
  const TIMES: Readonly<Record<string, readonly string[]>> = {
    'batch where id = $1': ['created_at', 'completed_at', 'expires_at'],
    'run where batch_id = $1': ['created_at', 'started_at', 'ended_at'],
    'run_failure where batch_id = $1': ['failed_at'],
    'step where run_id in (select id from run where batch_id = $1)': ['sealed_at', 'applied_at', 'ended_at'],
    'tool_call where run_id in (select id from run where batch_id = $1)': ['started_at', 'ended_at'],
    'message where run_id in (select id from run where batch_id = $1)': ['created_at'],
  };
  /** Moves all times of a batch into the past. */
  async function age(batch: SubmittedBatch, days: number): Promise<void> {
    for (const [of, columns] of Object.entries(TIMES)) {
      const [, table = '', where = ''] = /^(\w+) where (.*)$/.exec(of) ?? [];
      const moved = columns.map((name) => `${name} = ${name} - $2 * interval '1 day'`).join(', ');
      await house.rows(`update ${table} set ${moved} where ${where}`, [batch.id, days]);
    }
  }
  const batches = async () =>
    (await house.rows<{ id: string }>('select id from batch order by id')).map(({ id }) => id);

  test('is off by default, and follows RETENTION_DAYS and expires_in_days by the clock of the database', async () => {
    const plain = await runBatch();
    const short = await runBatch({ expires_in_days: 2 });
    const long = await runBatch({ expires_in_days: 90 });
    for (const batch of [plain, short, long]) await age(batch, 1.5);
    expect(await findDueFlows(worker)).not.toContain('forget');
    await removeAll();
    expect(await batches()).toEqual([plain.id, short.id, long.id]);
    for (const batch of [plain, short, long]) await age(batch, 1);
    expect(await findDueFlows(worker)).toContain('forget');
    await removeAll();
    expect(await batches()).toEqual([plain.id, long.id]);
    for (const batch of [plain, long]) await age(batch, 30);
    await removeAll();
    expect(await batches()).toEqual([plain.id, long.id]);
    const retaining = house.worker({ settings: { retention_days: 30 } });
    expect(await findDueFlows(retaining)).toContain('forget');
    await removeAll(retaining);
    expect(await batches()).toEqual([long.id]);
    expect(await findDueFlows(retaining)).not.toContain('forget');
  });

  test('waits for an open review, a callback, and a retry that is being received', async () => {
    const retaining = house.worker({ settings: { retention_days: 1 } });
    const held = await runBatch({ apply: 'review' });
    const calling = await runBatch({ callback_url: 'https://example.com/done' });
    const origin = await runBatch();
    const told = await runBatch();
    const { batch_id: retryId } = await inTransaction(house.database.db, (trx) =>
      storeRetry(trx, DEFAULT_PROJECT_ID, origin.id, {}, NO_KEY),
    );
    const undelivered = `
      with told as (insert into event (project_id, type, batch_id, data)
                    select project_id, 'batch.paused', id, '{}' from batch where id = $1 returning *)
      insert into callback_event (xid, id, project_id, next_due_at) select xid, id, project_id, app_now() from told`;
    await house.rows(undelivered, [told.id]);
    for (const batch of [held, calling, origin, told]) await age(batch, 2);
    await removeAll(retaining);
    expect(await batches()).toEqual([held.id, calling.id, origin.id, told.id, retryId]);
    await house.rows(`update callback_event set next_due_at = null, sent_at = app_now()`);
    await removeAll(retaining);
    expect(await batches()).toEqual([held.id, calling.id, origin.id, retryId]);
    await expect(forget(origin)).rejects.toThrow('still receiving');
    while ((await acceptBatch(worker)).worked);
    await removeAll(retaining);
    expect(await batches()).toEqual([held.id, calling.id, retryId]);
    await house.drive(worker);
  });

  test('keeps a batch whose retry is stored between the look and the lock', async () => {
    const origin = await runBatch();
    await age(origin, 2);
    const forgetting = await inTransaction(house.database.db, async (trx) => {
      // Lets the look pass, and holds the lock of rows back.
      await sql`lock table batch in exclusive mode`.execute(trx);
      const started = inTransaction(house.database.db, (other) => forgetExpiredBatches(other, 1, 10));
      await expect
        .poll(() =>
          house.rows(
            `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
          ),
        )
        .toHaveLength(1);
      await storeRetry(trx, DEFAULT_PROJECT_ID, origin.id, {}, NO_KEY);
      return { started };
    });
    expect(await forgetting.started).toBe(0);
    expect(await batches()).toContain(origin.id);
    await house.drive(worker);
  });

  test('keeps a retry until the batch that it retries is forgotten', async () => {
    const origin = await runBatch();
    const { batch_id: id } = await inTransaction(house.database.db, (trx) =>
      storeRetry(trx, DEFAULT_PROJECT_ID, origin.id, { expires_in_days: 1 }, NO_KEY),
    );
    await house.drive(worker);
    for (const batch of [origin, { ...origin, id }]) await age(batch, 2);
    await removeAll();
    expect(await batches()).toEqual([origin.id, id]);
    await removeAll(house.worker({ settings: { retention_days: 1 } }));
    expect(await batches()).toEqual([]);
  });
});

test('the provider batches of a forgotten batch are known for 30 days', async () => {
  const batch = await runBatch();
  const rows = await house.rows<{ provider_id: string }>('select provider_id from provider_batch');
  const known = rows.map(({ provider_id }) => provider_id);
  await forget(batch);
  await removeAll();
  expect(await readKnownProviderIds(house.database.db, known)).toEqual(new Set(known));
  await house.rows(`update provider_batch set created_at = created_at - interval '31 days'`);
  await removeAll();
  expect(await house.rows('select 1 from provider_batch')).toEqual([]);
});

describe('cursors', () => {
  const FLEET = { agents: {}, cursor: 'digest', input: '{{ new_messages_text }}' };
  const say = (agentId: string, text: string) =>
    inTransaction(house.database.db, (trx) =>
      appendMessages(trx, DEFAULT_PROJECT_ID, [
        {
          ...{ agent_id: agentId, path: '' },
          messages: [
            { role: 'user', content: [{ type: 'text', text }], otid: null, name: null, said_at: null },
          ],
        },
      ]),
    );
  const night = async (body: object) => {
    const id = await storeBody(house.database.db, body);
    await house.drive(worker);
    return { id };
  };
  const place = async (agentId: string) => {
    const [cursor] = await listCursors(house.database.db, DEFAULT_PROJECT_ID, agentId);
    return cursor;
  };
  const spans = async () =>
    (await house.rows<{ n: number }>('select count(*)::int as n from cursor_span'))[0]?.n;

  test('stay exact when batches under them are forgotten in any order', async () => {
    const { agent_ids } = await house.submit([{ input: 'Hello.', isolated: true }]);
    await house.drive(worker);
    const [ann = ''] = agent_ids;
    const nights: { readonly id: string }[] = [];
    for (const text of ['one', 'two', 'three']) {
      await say(ann, text);
      nights.push(await night(FLEET));
    }
    const { provider, sent } = recording(house);
    worker = house.worker({ provider });
    for (const at of [1, 2, 0]) {
      const before = await place(ann);
      await forget(nights[at]!);
      expect(await auditInvariants(house.database.db)).toEqual([]);
      await removeAll();
      expect(await auditInvariants(house.database.db)).toEqual([]);
      const after = await place(ann);
      expect(after).toMatchObject({ position: before?.position, new_messages: 0, skip: 'nothing_new' });
    }
    expect(await spans()).toBe(1);
    expect(await place(ann)).toMatchObject({ last_run_id: null, last_batch_id: null });
    await say(ann, 'four');
    await night(FLEET);
    expect(sent.map(({ messages }) => messages.at(-1)?.content[0]?.['text'])).toEqual([
      expect.stringMatching(/^\[.*\] user: four$/),
    ]);
  });

  test('of rejected rewrites stay behind the messages, and a revert after a forget goes back no further', async () => {
    const { agent_ids } = await house.submit([
      { input: 'Hello.', isolated: true, blocks: { summary: 'none' } },
    ]);
    await house.drive(worker);
    const [ann = ''] = agent_ids;
    const rewrite = {
      kind: 'memory_rewrite',
      agents: {},
      blocks: ['summary'],
      cursor: 'r',
      prompt: append('x'),
    };
    const body = (text: string, rest: object = {}) => ({
      ...{
        ...rewrite,
        prompt: call('memory_replace', { label: 'summary', old_string: text, new_string: `${text}!` }),
      },
      ...rest,
    });
    await say(ann, 'one');
    const first = await night(body('none'));
    await say(ann, 'two');
    const second = await night(body('none!', { apply: 'review' }));
    await inTransaction(house.database.db, (trx) =>
      rejectHeldChanges(trx, DEFAULT_PROJECT_ID, second.id, { agent_ids: null, block_ids: null }),
    );
    const before = await listCursors(house.database.db, DEFAULT_PROJECT_ID, ann, 'r');
    expect(before).toMatchObject([{ new_messages: 1 }]);
    await forget(second);
    await removeAll();
    expect(await listCursors(house.database.db, DEFAULT_PROJECT_ID, ann, 'r')).toMatchObject([
      { position: before[0]?.position, new_messages: 1, skip: null },
    ]);
    await forget(first);
    await removeAll();
    const third = await night(body('none!'));
    expect(await listCursors(house.database.db, DEFAULT_PROJECT_ID, ann, 'r')).toMatchObject([
      { new_messages: 0 },
    ]);
    await inTransaction(house.database.db, (trx) => revertBatch(trx, DEFAULT_PROJECT_ID, third.id, false));
    expect(await listCursors(house.database.db, DEFAULT_PROJECT_ID, ann, 'r')).toMatchObject([
      { position: before[0]?.position, new_messages: 1 },
    ]);
  });
});
