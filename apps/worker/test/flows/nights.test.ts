import type {} from '../../../../test/global-setup.ts';
import {
  acceptHeldChanges,
  appendMessages,
  auditInvariants,
  DEFAULT_PROJECT_ID,
  inTransaction,
  readBatch,
  rejectHeldChanges,
  type Database,
} from '@nightshift/db';
import { storeBody } from '@nightshift/intake/testing';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { acceptBatch } from '../../src/flows/accept-batch/accept-batch.ts';
import { call, openHouse, recording, script, type House } from './house.ts';

let house: House;
let db: Database;
let worker: FlowDeps;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  ({ db } = house.database);
  worker = house.worker();
});
afterEach(async () => {
  expect(await auditInvariants(db)).toEqual([]);
  await house.close();
});

const REWRITE = { kind: 'memory_rewrite', agents: {}, blocks: ['summary'] } as const;

/** Creates agents with a summary and a block of facts. */
async function createAgents(count: number, agent: object = {}): Promise<readonly string[]> {
  const { agent_ids } = await house.submit(
    Array.from({ length: count }, () => ({
      input: 'Hello.',
      isolated: true,
      blocks: { summary: 'nothing yet', facts: 'born 1990' },
      agent,
    })),
  );
  await house.drive(worker);
  return agent_ids;
}

/** Appends a message of a user to an agent's conversation. */
async function say(agentId: string, text: string): Promise<void> {
  await inTransaction(db, (trx) =>
    appendMessages(trx, DEFAULT_PROJECT_ID, [
      {
        ...{ agent_id: agentId, path: '' },
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text }],
            otid: null,
            name: 'Ann',
            said_at: '2026-11-25T10:00:00Z',
          },
        ],
      },
    ]),
  );
}

const submit = (body: object): Promise<string> => storeBody(db, body);

async function night(body: object): Promise<Awaited<ReturnType<typeof batchOf>>> {
  const id = await submit(body);
  await house.drive(worker);
  return batchOf(id);
}

const batchOf = (id: string) => readBatch(db, DEFAULT_PROJECT_ID, id);
const valuesOf = async (label: string) =>
  (
    await house.rows<{ value: string }>(
      `select r.value from agent_block k join block b on b.id = k.block_id
         join block_revision r on r.block_id = b.id and r.revision = b.head_revision
         join agent a on a.id = k.agent_id where k.label = $1 order by a.created_at, a.id`,
      [label],
    )
  ).map(({ value }) => value);

const replace = (block: string, from: string, to: string) =>
  script(
    {
      tool: 'memory_replace',
      args: { label: block, old_string: from, new_string: to },
    },
    { text: 'Done.' },
  );

describe('a fleet under a cursor', () => {
  const FLEET = { agents: {}, cursor: 'digest', input: '{{ new_messages_text }}' };

  test('is given each message once, and skips agents without new messages', async () => {
    const [ann = '', bob = ''] = await createAgents(2);
    await say(ann, 'I moved to Berlin.');
    const { provider, sent } = recording(house);
    worker = house.worker({ provider });
    expect(await night(FLEET)).toMatchObject({ completed: 1, total: 1, skipped: { nothing_new: 1 } });
    await say(bob, 'My cat is ill.');
    expect(await night(FLEET)).toMatchObject({ completed: 1, skipped: { nothing_new: 1 } });
    expect(await night(FLEET)).toMatchObject({ total: 0, skipped: { nothing_new: 2 }, state: 'completed' });
    expect(sent.map(({ messages }) => messages.at(-1)?.content[0]?.['text'])).toEqual([
      '[2026-11-25T10:00:00.000Z] user Ann: I moved to Berlin.',
      '[2026-11-25T10:00:00.000Z] user Ann: My cat is ill.',
    ]);
  });

  test('counts agents with too few new messages', async () => {
    const [ann = ''] = await createAgents(1);
    await say(ann, 'one');
    const body = { ...FLEET, agents: { min_new_messages: 2 } };
    expect(await night(body)).toMatchObject({ total: 0, skipped: { too_few_new: 1 } });
    await say(ann, 'two');
    expect(await night(body)).toMatchObject({ completed: 1, skipped: {} });
  });

  test('skips agents that are under way in another batch', async () => {
    const [ann = ''] = await createAgents(1);
    await say(ann, 'one');
    const first = await submit(FLEET);
    await acceptBatch(worker);
    await say(ann, 'two');
    const second = await submit(FLEET);
    await acceptBatch(worker);
    expect(await batchOf(second)).toMatchObject({ total: 0, skipped: { under_way: 1 } });
    await house.drive(worker);
    expect(await batchOf(first)).toMatchObject({ completed: 1 });
    expect(await night(FLEET)).toMatchObject({ completed: 1 });
  });
});

describe('a memory rewrite', () => {
  test('lets agents rewrite the named blocks with our prompt, and no others', async () => {
    const [ann = ''] = await createAgents(1, { system: 'You are the agent of Ann.' });
    await say(
      ann,
      script(
        {
          tool: 'memory_replace',
          args: { label: 'summary', old_string: 'nothing yet', new_string: 'Ann moved.' },
        },
        { tool: 'memory_replace', args: { label: 'facts', old_string: '1990', new_string: '1991' } },
        { text: 'Done.' },
      ),
    );
    const { provider, sent } = recording(house);
    worker = house.worker({ provider });
    expect(await night(REWRITE)).toMatchObject({ completed: 1, state: 'completed' });
    expect(await valuesOf('summary')).toEqual(['Ann moved.']);
    expect(await valuesOf('facts')).toEqual(['born 1990']);
    const [first] = sent;
    expect(first?.tools?.map(({ name }) => name)).toEqual(expect.arrayContaining(['memory_replace']));
    expect(JSON.stringify(first?.messages)).toContain('You are the agent of Ann.');
    expect(await night(REWRITE)).toMatchObject({ total: 0, skipped: { nothing_new: 1 } });
  });

  test('shares one definition, whatever the agents are', async () => {
    const agents = [
      ...(await createAgents(2, { system: 'A.' })),
      ...(await createAgents(2, { system: 'B.' })),
    ];
    for (const agent of agents) await say(agent, 'Hi.');
    const { id } = await night(REWRITE);
    const [row] = await house.rows<{ count: number }>(
      'select count(distinct definition_id)::int as count from run where batch_id = $1',
      [id],
    );
    expect(row?.count).toBe(1);
  });

  test('under review moves the cursor of accepted agents alone', async () => {
    const [ann = '', bob = ''] = await createAgents(2);
    for (const agent of [ann, bob]) await say(agent, replace('summary', 'nothing yet', 'news'));
    const body = { ...REWRITE, apply: 'review' };
    const { id } = await night(body);
    expect(await night(body)).toMatchObject({ total: 0, skipped: { in_review: 2 } });
    await inTransaction(db, async (trx) => {
      await acceptHeldChanges(trx, DEFAULT_PROJECT_ID, id, { agent_ids: [ann], block_ids: null });
      await rejectHeldChanges(trx, DEFAULT_PROJECT_ID, id, { agent_ids: [bob], block_ids: null });
    });
    expect(await valuesOf('summary')).toEqual(['news', 'nothing yet']);
    expect(await night(body)).toMatchObject({ total: 1, skipped: { nothing_new: 1 } });
  });

  test('accepts at its end all but the agents that lose too much', async () => {
    const agents = await createAgents(2);
    await house.rows(`update block_revision set value = repeat('word ', 40) where value = 'nothing yet'`);
    const long = 'word '.repeat(40);
    await say(agents[0] ?? '', replace('summary', long, `${long}more`));
    await say(agents[1] ?? '', replace('summary', long, 'little'));
    const body = { ...REWRITE, apply: 'review', hold_if: { shrinks_by: 0.6 } };
    expect(await night(body)).toMatchObject({ completed: 2, state: 'completed' });
    expect(await valuesOf('summary')).toEqual([`${long}more`, long]);
    expect(await night(body)).toMatchObject({ total: 0, skipped: { nothing_new: 1, in_review: 1 } });
  });

  test('creates missing blocks where it may, and skips their agents where it may not', async () => {
    const [ann = ''] = await createAgents(1);
    await say(ann, 'Hi.');
    await house.rows(
      `insert into block (id, project_id, label, head_revision) values (gen_random_uuid(), $1, 'goals', 1)`,
      [DEFAULT_PROJECT_ID],
    );
    await house.rows(
      `insert into block_revision (block_id, revision, project_id, value, char_limit, read_only)
       select id, 1, project_id, '', 100, false from block where label = 'goals'`,
    );
    const body = { ...REWRITE, blocks: ['summary', 'goals'] };
    expect(await night(body)).toMatchObject({ total: 0, skipped: { missing_block: 1 } });
    expect(await night({ ...body, create_blocks: true })).toMatchObject({ completed: 1 });
    expect(await valuesOf('goals')).toEqual(['']);
  });

  test('gives long material in parts, each with the memory the last one left', async () => {
    const [ann = ''] = await createAgents(1, { context_window_limit: 40_000 });
    const filler = 'lorem ipsum '.repeat(2_000);
    for (let index = 1; index <= 6; index++) await say(ann, `${index} ${filler}`);
    await say(ann, call('core_memory_append', { label: 'summary', content: 'x' }));
    const report = await night({ ...REWRITE, parts_max: 3 });
    expect(report).toMatchObject({ completed: 3, total: 3, queued: 0 });
    const spans = await house.rows<{ from_seq: number; to_seq: number }>(
      'select s.from_seq, s.to_seq from cursor_span s join run r on r.id = s.run_id where r.batch_id = $1 order by r.ordinal',
      [report.id],
    );
    expect(spans.map(({ from_seq }) => from_seq)).toEqual([
      0,
      ...spans.slice(0, -1).map(({ to_seq }) => to_seq),
    ]);
    expect(await night({ ...REWRITE, parts_max: 100 })).toMatchObject({ skipped: {} });
    expect(await night(REWRITE)).toMatchObject({ skipped: { nothing_new: 1 } });
  });
});
