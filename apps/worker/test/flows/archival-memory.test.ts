import type {} from '../../../../test/global-setup.ts';
import { fromStorable, toStorable } from '@nightshift/agent-core';
import {
  acceptHeldChanges,
  auditInvariants,
  DEFAULT_PROJECT_ID,
  inTransaction,
  rejectHeldChanges,
  resetMessages,
  revertBatch,
  type NewBatch,
} from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import {
  call,
  openHouse,
  recording,
  type House,
  type SentParams,
  type SubmittedBatch,
  type SubmittedRun,
} from './house.ts';

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

const TOOLS = ['archival_memory_insert', 'archival_memory_search', 'conversation_search'];
const keep = (content: string, tags: readonly string[] = []) =>
  call('archival_memory_insert', { content, tags });
const search = (query: string, rest: object = {}) => call('archival_memory_search', { query, ...rest });

interface Found {
  readonly message: string;
  readonly results: readonly {
    readonly content: string;
    readonly tags?: readonly string[];
    readonly role?: string;
  }[];
}

/** Returns the answers to the calls of a run in order: text, or search results. */
async function answersOf(batch: SubmittedBatch, index = 0): Promise<readonly (string | Found)[]> {
  const rows = await house.rows<{ content: string }>(
    "select content::text from message where run_id = $1 and role = 'user' order by seq",
    [batch.run_ids[index]],
  );
  return rows
    .flatMap((row) => JSON.parse(fromStorable(row.content)) as { type: string; content?: unknown }[])
    .filter((part) => part.type === 'tool_result')
    .map((part) => {
      const [{ text = '' } = {}] = Array.isArray(part.content)
        ? (part.content as { text?: string }[])
        : [{ text: String(part.content) }];
      return text.startsWith('{') ? (JSON.parse(text) as Found) : text;
    });
}
const contents = (answer: string | Found | undefined) =>
  typeof answer === 'object' ? answer.results.map((result) => result.content) : answer;

async function run(runs: readonly SubmittedRun[], rest: Partial<NewBatch> = {}): Promise<SubmittedBatch> {
  const batch = await house.submit(runs, rest);
  await house.drive(worker);
  return batch;
}

describe('archival memory', () => {
  test('is searched by words (best first), tags and dates; a search finds entries from before its step', async () => {
    const batch = await run([
      {
        input: [
          keep('The customer likes green tea.', ['taste']),
          keep('The customer drinks tea, and more tea: green tea.', ['taste', 'drink']),
          keep('Invoices are paid in March.', ['money']),
          search('likes tea'),
          search('green tea', { tags: ['drink', 'taste'], tag_match_mode: 'all' }),
          search('paid invoice', { top_k: 1 }),
          search('invoices', { end_datetime: '2020-01-01' }),
          search('aeroplane'),
          search('the'),
          search('tea', { start_datetime: 'soon' }),
        ].join('\n'),
        tools: TOOLS,
      },
    ]);
    const answers = await answersOf(batch);
    expect(answers.slice(0, 3)).toEqual(
      Array.from({ length: 3 }, () => expect.stringContaining('was added')),
    );
    expect(contents(answers[3])).toHaveLength(2);
    expect(contents(answers[4])).toEqual(['The customer drinks tea, and more tea: green tea.']);
    expect(contents(answers[5])).toEqual(['Invoices are paid in March.']);
    expect(contents(answers[6])).toEqual([]);
    expect(answers[7]).toMatchObject({ message: 'No results found.' });
    // No word counts, so the latest entries are shown.
    expect(contents(answers[8])?.[0]).toBe('Invoices are paid in March.');
    expect(answers[9]).toContain('Invalid start_datetime format');
  });

  test('is searched by words that contain an ampersand', async () => {
    const batch = await run([
      {
        input: [
          keep('See http://shop.example/list?page=1&size=2 first.'),
          keep('See http://shop.example/other first.'),
          search('http://shop.example/list?page=1&size=2'),
        ].join('\n'),
        tools: TOOLS,
      },
    ]);
    const found = contents((await answersOf(batch))[2]);
    expect(found).toHaveLength(2);
    expect(found?.[0]).toContain('page=1&size=2');
  });

  test('belongs to its agent, and a later batch of the agent finds it', async () => {
    const first = await run([
      { input: keep('secret of one'), tools: TOOLS },
      { input: search('secret'), tools: TOOLS },
    ]);
    expect(contents((await answersOf(first, 1))[0])).toEqual([]);
    const later = await run([{ input: search('secrets'), agent_id: first.agent_ids[0] ?? '' }]);
    expect(contents((await answersOf(later))[0])).toEqual(['secret of one']);
  });

  test('written by a batch is gone after a revert of the batch', async () => {
    const batch = await run([{ input: keep('a passage'), tools: TOOLS }]);
    const report = await inTransaction(house.database.db, (trx) =>
      revertBatch(trx, DEFAULT_PROJECT_ID, batch.id, false),
    );
    expect(report.passages).toBe(1);
    expect(await house.rows('select 1 from passage')).toEqual([]);
  });

  test('under review is found only by runs of that batch until it is accepted', async () => {
    const batch = await run([{ input: `${keep('a held passage')}\n${search('passage')}`, tools: TOOLS }], {
      apply: 'review',
    });
    expect(contents((await answersOf(batch))[1])).toEqual(['a held passage']);
    const look = async () => {
      const other = await run([{ input: search('passage'), agent_id: batch.agent_ids[0] ?? '' }]);
      return contents((await answersOf(other))[0]);
    };
    expect(await look()).toEqual([]);
    const report = await inTransaction(house.database.db, (trx) =>
      acceptHeldChanges(trx, DEFAULT_PROJECT_ID, batch.id, { agent_ids: null, block_ids: null }),
    );
    expect(report).toEqual({ accepted: 0, passages: 1, stale: [] });
    expect(await look()).toEqual(['a held passage']);
  });

  test('under review is rejected by agent; a second reject has no effect', async () => {
    const batch = await run([{ input: keep('a held passage'), tools: TOOLS }], { apply: 'review' });
    const reject = (isDry = false) =>
      inTransaction(house.database.db, (trx) =>
        rejectHeldChanges(
          trx,
          DEFAULT_PROJECT_ID,
          batch.id,
          { agent_ids: batch.agent_ids, block_ids: null },
          isDry,
        ),
      );
    expect(await reject(true)).toEqual({ rejected: 0, passages: 1 });
    expect(await reject()).toEqual({ rejected: 0, passages: 1 });
    expect(await house.rows('select 1 from passage')).toEqual([]);
    expect(await reject()).toEqual({ rejected: 0, passages: 0 });
  });

  test('under review survives a revert of the accepted part', async () => {
    const batch = await run(
      [
        { input: keep('of the first'), tools: TOOLS },
        { input: keep('of the second'), tools: TOOLS },
      ],
      { apply: 'review' },
    );
    const accept = (agentIds: readonly string[] | null) =>
      inTransaction(house.database.db, (trx) =>
        acceptHeldChanges(trx, DEFAULT_PROJECT_ID, batch.id, { agent_ids: agentIds, block_ids: null }),
      );
    await accept(batch.agent_ids.slice(0, 1));
    const reverted = await inTransaction(house.database.db, (trx) =>
      revertBatch(trx, DEFAULT_PROJECT_ID, batch.id, false),
    );
    expect(reverted.passages).toBe(1);
    expect(await accept(null)).toMatchObject({ passages: 1 });
    expect(await house.rows('select content from passage')).toEqual([{ content: 'of the second' }]);
  });

  test('is searched once for all runs of a chunk', async () => {
    const batch = await run(
      Array.from({ length: 60 }, (_, index) => ({
        input: `${keep(`number ${index} of the fleet`)}\n${search('fleet')}`,
        tools: TOOLS,
      })),
    );
    for (const index of [0, 31, 59]) {
      expect(contents((await answersOf(batch, index))[1])).toEqual([`number ${index} of the fleet`]);
    }
  });
});

describe('the search of a conversation', () => {
  // In one of them the day differs from UTC at any hour.
  test.each(['Pacific/Kiritimati', 'Etc/GMT+12'])(
    'up to a day of its agent, in %s, finds the messages of that day and counts its results',
    async (timezone) => {
      const first = await run([{ input: 'My dog is called Rex.', tools: TOOLS, agent: { timezone } }]);
      const [day] = await house.rows<{ today: string; before: string }>(
        `select to_char(app_now() at time zone $1, 'YYYY-MM-DD') as today,
                to_char(app_now() at time zone $1 - interval '2 days', 'YYYY-MM-DD') as before`,
        [timezone],
      );
      const look = (end_date: string | undefined) =>
        call('conversation_search', { query: 'dog', roles: ['assistant'], end_date });
      const later = await run([
        { input: [look(day?.today), look(day?.before)].join('\n'), agent_id: first.agent_ids[0] ?? '' },
      ]);
      const [today, before] = (await answersOf(later)) as Found[];
      expect(today?.results.map(({ content }) => content)).toEqual(['Understood: My dog is called Rex.']);
      expect(today?.message).toBe('Showing 1 result:');
      expect(before?.results).toEqual([]);
    },
  );

  test.each(['America/New_York', 'Asia/Tokyo'])(
    'between the first and the last valid day, in %s, finds everything',
    async (timezone) => {
      const first = await run([{ input: 'My dog is called Rex.', tools: TOOLS, agent: { timezone } }]);
      const look = (start_date: string, end_date: string) =>
        call('conversation_search', { query: 'dog', roles: ['assistant'], start_date, end_date });
      const spans = [
        look('0001-01-01', '9999-12-31'),
        look('0000-01-01T00:00:00+14:00', '9999-12-31T23:59:59-12:00'),
        search('dog', { start_datetime: '9999-12-31T23:59:59-12:00' }),
      ];
      const later = await run([{ input: spans.join('\n'), agent_id: first.agent_ids[0] ?? '' }]);
      const answers = await answersOf(later);
      expect(answers.map(contents)).toEqual([
        ['Understood: My dog is called Rex.'],
        ['Understood: My dog is called Rex.'],
        [],
      ]);
    },
  );

  test('finds messages of user and assistant, not tool results', async () => {
    const first = await run([{ input: 'My dog is called Rex.', tools: TOOLS }]);
    const later = await run([
      {
        input: [
          call('conversation_search', { query: 'dog', roles: ['user'] }),
          call('conversation_search', { query: 'dogs', roles: ['tool'] }),
          call('conversation_search', { limit: 1, roles: ['user'], end_date: '2999-01-01' }),
          call('conversation_search', { query: 'x', limit: 0 }),
        ].join('\n'),
        agent_id: first.agent_ids[0] ?? '',
      },
    ]);
    const answers = await answersOf(later);
    const found = answers[0] as Found;
    expect(found.results.some(({ content, role }) => content.includes('Rex') && role === 'user')).toBe(true);
    expect(found.results.every(({ role }) => role === 'user')).toBe(true);
    expect(answers[1]).toMatchObject({ message: 'No results found.' });
    expect((answers[2] as Found).results).toHaveLength(1);
    expect(answers[3]).toContain("'limit' must be a whole number");
  });

  test('finds messages stored wrapped because the database cannot parse them', async () => {
    const first = await run([{ input: 'My dog is called Rex.', tools: TOOLS }]);
    const said = String.raw`[{"type":"text","text":"My dog \ud83d\ude00 is \u0000 called \\ud83d \\\ud83d Rex.\ud800"}]`;
    await house.rows(`update message set content = $1::json where role = 'user'`, [toStorable(said)]);
    const look = call('conversation_search', { query: 'dog', roles: ['user'] });
    const later = await run([{ input: look, agent_id: first.agent_ids[0] ?? '' }]);
    const [found] = (await answersOf(later)) as Found[];
    expect(found?.results.map(({ content }) => content)).toContain(
      String.raw`My dog �� is � called \ud83d \� Rex.�`,
    );
  });

  test('finds its words in a conversation with messages too long to be searched whole', async () => {
    const first = await run([{ input: 'My dog is called Rex.', tools: TOOLS }]);
    // More distinct words than the index of one text can hold.
    await house.rows(
      `update message set content = json_build_array(json_build_object('type', 'text', 'text',
         'My dog is called Rex. ' || (select string_agg(md5(n::text), ' ') from generate_series(1, 60000) n)))
        where role = 'user'`,
    );
    const look = call('conversation_search', { query: 'dog', roles: ['user'] });
    const later = await run([{ input: look, agent_id: first.agent_ids[0] ?? '' }]);
    expect(await house.runsOf(later.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
    const [found] = (await answersOf(later)) as Found[];
    expect(found?.results.some(({ content }) => content.startsWith('My dog is called Rex. c4ca'))).toBe(true);
  });

  test('covers the latest messages, not years of them', async () => {
    const first = await run([{ input: 'My dog is called Rex.', tools: TOOLS }]);
    await house.rows(
      `with old as (select project_id, conversation_id, max(seq) as seq from message group by 1, 2)
       insert into message (project_id, conversation_id, seq, role, content)
       select old.project_id, old.conversation_id, old.seq + n, 'assistant',
              json_build_array(json_build_object('type', 'text', 'text', 'sheep ' || n))
         from old, generate_series(1, 2500) n`,
    );
    await house.rows('update conversation set context_from_seq = (select max(seq) + 1 from message)');
    const look = (query: string) => call('conversation_search', { query, roles: ['assistant'] });
    const later = await run([
      { input: [look('600'), look('dog')].join('\n'), agent_id: first.agent_ids[0] ?? '' },
    ]);
    const [found, tooOld] = (await answersOf(later)) as Found[];
    expect(found?.results.map(({ content }) => content)).toContain('sheep 600');
    expect(tooOld?.results.filter(({ content }) => content.includes('Rex'))).toEqual([]);
  });

  test('finds messages that requests no longer show, but none from before a reset of its agent', async () => {
    const first = await run([{ input: 'My dog is called Rex.', tools: TOOLS }]);
    const agent_id = first.agent_ids[0] ?? '';
    const found = async (query: string) => {
      const look = call('conversation_search', { query, roles: ['assistant'] });
      return contents((await answersOf(await run([{ input: look, agent_id }])))[0]);
    };
    const forget = () =>
      inTransaction(house.database.db, (trx) => resetMessages(trx, DEFAULT_PROJECT_ID, agent_id));
    const hide = () =>
      house.rows('update conversation set context_from_seq = (select max(seq) + 1 from message)');
    await hide();
    expect(await found('dog')).toEqual(['Understood: My dog is called Rex.']);
    await forget();
    expect(await found('dog')).toEqual([]);
    expect(await found('')).not.toContain('Understood: My dog is called Rex.');
    await run([{ input: 'My cat is called Tom.', agent_id }]);
    await hide();
    expect(await found('cat')).toEqual(['Understood: My cat is called Tom.']);
    await forget();
    expect(await found('cat')).toEqual([]);
  });
});

describe('the counts in a prompt', () => {
  const metadataOf = ({ system }: SentParams): string => system?.at(-1)?.text.split('\n\n').at(-1) ?? '';
  const recall = (count: number) => `- ${count} previous messages between you and the user`;

  test('cover only messages the prompt does not show, as of the begin of the run', async () => {
    const { provider, sent } = recording(house);
    worker = house.worker({ provider });
    const batch = await run([
      { input: [keep('tea', ['drink', 'taste']), keep('rice', ['taste'])].join('\n'), tools: TOOLS },
    ]);
    expect(sent.map(metadataOf).map((text) => text.includes('archival'))).toEqual([false, false, false]);
    expect(metadataOf(sent[0]!)).toContain(`- AGENT_ID: agent-${batch.agent_ids[0]}\n`);
    expect(metadataOf(sent[0]!)).toContain('- CONVERSATION_ID: default\n');
    expect(metadataOf(sent[0]!)).toContain(recall(0));
    expect(metadataOf(sent[2]!)).toBe(metadataOf(sent[0]!));

    const [agent_id] = batch.agent_ids;
    const hide = () =>
      house.rows('update conversation set context_from_seq = (select max(seq) + 1 from message)');
    await hide();
    await run([{ input: 'And now?', agent_id: agent_id! }]);
    expect(metadataOf(sent.at(-1)!)).toContain(recall(6));
    expect(metadataOf(sent.at(-1)!)).toContain('- 2 total memories you created');
    expect(metadataOf(sent.at(-1)!)).toContain('- Available archival memory tags: drink, taste\n');
    await inTransaction(house.database.db, (trx) => resetMessages(trx, DEFAULT_PROJECT_ID, agent_id!));
    await run([{ input: 'And since then?', agent_id: agent_id! }]);
    expect(metadataOf(sent.at(-1)!)).toContain(recall(0));
    await hide();
    await run([{ input: 'And behind that?', agent_id: agent_id! }]);
    expect(metadataOf(sent.at(-1)!)).toContain(recall(2));
    await run([{ input: 'And here?', agent_id: agent_id!, isolated: true }]);
    expect(metadataOf(sent.at(-1)!)).toContain(recall(0));
    expect(metadataOf(sent.at(-1)!)).toMatch(/- CONVERSATION_ID: conversation-[0-9a-f-]{36}\n/);
  });

  test('stand after the static part, which stays the same, and only if a tool can reach the counted items', async () => {
    const { provider, sent } = recording(house);
    worker = house.worker({ provider });
    await run([
      { input: keep('tea'), tools: TOOLS, blocks: { notes: 'n' } },
      { input: 'Good morning.', tools: ['core_memory_append'], blocks: { notes: 'n' } },
    ]);
    const [reaching, other] = [true, false].map((has) =>
      sent.filter(({ tools }) => tools?.some(({ name }) => name === 'archival_memory_insert') === has),
    );
    expect(reaching).toHaveLength(2);
    expect(new Set(reaching?.map(({ system }) => system?.[0]?.text)).size).toBe(1);
    expect(reaching?.[0]?.system?.[1]?.text).toMatch(/^<memory_blocks>[^]*<\/memory_blocks>\n\n<memory_met/);
    expect(JSON.stringify(other)).not.toContain('memory_metadata');
  });

  test('under review cover only items the run itself would find', async () => {
    const { provider, sent } = recording(house);
    worker = house.worker({ provider });
    const batch = await run(
      [
        { input: keep('held'), tools: TOOLS },
        { input: 'And now?', same_agent_as: 0 },
      ],
      { apply: 'review' },
    );
    expect(metadataOf(sent[2]!)).toContain('- 1 total memories');
    await run([{ input: 'Anything?', agent_id: batch.agent_ids[0]! }]);
    expect(metadataOf(sent[3]!)).not.toContain('archival');
  });

  test('are the same to the byte if the request is built again after the archive has changed', async () => {
    const bodies: string[] = [];
    const real = recording(house).provider;
    const provider: FlowDeps['provider'] = {
      ...real,
      async createBatch(body, asked) {
        // Except nonce and attempt, which are new.
        bodies.push((await body.text()).replaceAll(/"custom_id":"[^"]+"/g, ''));
        if (bodies.length > 1) return real.createBatch(body, asked);
        await house.rows(
          `insert into passage (id, project_id, agent_id, content, words, tags, batch_id, run_id, step_number, tool_use_id)
           select gen_random_uuid(), project_id, agent_id, 'dusk', '', '{dusk}', batch_id, id, 1, 'x' from run`,
        );
        await house.rows(`update agent set timezone = 'Asia/Tokyo'`);
        return { outcome: 'unknown', status: null, reason: 'the answer got lost' };
      },
    };
    worker = house.worker({ provider });
    await house.submit([{ input: 'Anything?', tools: TOOLS }]);
    await house.drive(worker, { hasten: true });
    expect(bodies).toHaveLength(2);
    expect(bodies[1]).toBe(bodies[0]);
    expect(bodies[0]).toContain('memory_metadata');
    expect(bodies[0]).not.toContain('dusk');
  });

  test('of a fleet are per agent', async () => {
    const { provider, sent } = recording(house);
    worker = house.worker({ provider });
    const first = await run([
      { input: keep('one', ['a']), tools: TOOLS },
      { input: `${keep('two', ['b'])}\n${keep('three', ['b'])}`, tools: TOOLS },
    ]);
    sent.length = 0;
    const [one = '', two = ''] = first.agent_ids;
    await run([one, two, two, two].map((agent_id) => ({ input: 'Hello.', agent_id, isolated: true })));
    const told = sent
      .map(metadataOf)
      .map((text) => /- (\d) total[^]*tags: (.)/.exec(text)?.slice(1).join(''));
    expect(told.toSorted()).toEqual(['1a', '2b', '2b', '2b']);
  });
});
