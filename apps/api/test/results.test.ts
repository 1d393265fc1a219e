import { get, type IncomingMessage } from 'node:http';
import { constants, gunzipSync } from 'node:zlib';
import { toWireId } from '@nightshift/agent-core';
import { claimToolsChunk, type NewRun } from '@nightshift/db';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { aRun, createTestAgents } from '../../../libs/db/test/factories.ts';
import {
  accept,
  act,
  answer,
  callsTools,
  clear,
  DONE,
  ingest,
  sealAndEnd,
  type Accepted,
} from '../../../libs/db/test/worker-commits/night-shift.ts';
import { buildServer } from '../src/index.ts';
import { API_KEY, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
let agentIds: readonly string[] = [];
const OTHER_PROJECT = '00000000-0000-4000-8000-00000000000a';
beforeAll(async () => {
  api = await openApi();
  agentIds = (await createTestAgents(api.database.db, 3)).map((agent) => agent.id);
  await api.database.pool.query(`insert into project (id, name) values ($1, 'other')`, [OTHER_PROJECT]);
});
afterAll(() => api.close());

/** The same numbers in every run, from 0 to below 1. */
function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

const authorization = `Bearer ${API_KEY}`;
const urlOf = (batchId: string, query = ''): string => `/v1/batches/job-${batchId}/results?${query}`;

/** Downloads a file of results as it was sent, compressed if asked for. */
async function download(url: string, encoding = 'identity'): Promise<Buffer> {
  const answered = await api.app.inject({
    url,
    headers: { authorization, 'accept-encoding': encoding },
  });
  expect([answered.statusCode, answered.headers['content-type']]).toEqual([200, 'application/jsonl']);
  expect(answered.headers['content-encoding']).toBe(encoding === 'gzip' ? 'gzip' : undefined);
  return answered.rawPayload;
}

interface Line {
  // Parsed JSON; what follows it is the check.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly [name: string]: any;
}

const parse = (text: string): readonly Line[] =>
  text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);

/** Reads a file of results: its runs and its last line. */
async function read(url: string): Promise<{ readonly runs: readonly Line[]; readonly end: Line }> {
  const lines = parse((await download(url)).toString());
  const last = lines.at(-1)?.['end'];
  expect(last).toBeDefined();
  return { runs: lines.slice(0, -1), end: last };
}

const customIds = (runs: readonly Line[]): readonly string[] => runs.map((run) => run['custom_id']);

/** Makes a batch of runs with custom ids from `r0` on, each with its own conversation. */
function aBatchOf(count: number, overrides: Partial<NewRun> = {}): Promise<Accepted> {
  const agentId = agentIds[0] ?? '';
  const runs = Array.from({ length: count }, (_, index) => ({
    ...aRun(agentId),
    isolated: true,
    custom_id: `r${index}`,
    ...overrides,
  }));
  return accept(api.database.db, runs);
}

/** Marks a batch as ended, as the flow does after its last run. */
const endBatch = ({ id }: Accepted) =>
  sql`update batch set state = 'completed', completed_at = app_now() where id = ${id}::uuid`.execute(
    api.database.db,
  );

const says = (text: string) => answer([{ type: 'text', text }]);

/** Ends runs in the given order, in commits of up to seven runs and random slots. */
async function endAll(batch: Accepted, random: () => number, order: readonly string[]): Promise<void> {
  const { db } = api.database;
  const lease = await sealAndEnd(db);
  for (let at = 0; at < order.length;) {
    const run_ids = order.slice(at, (at += 1 + Math.floor(random() * 7)));
    const text = `${run_ids[0]} ${'ä'.repeat(random() < 0.05 ? 300_000 : random() * 100)}`;
    await ingest(db, lease, says(text), { run_ids, slot: Math.floor(random() * 8) });
  }
  await endBatch(batch);
}

const shuffled = <Item>(items: readonly Item[], random: () => number): Item[] =>
  items
    .map((item) => ({ item, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item);

describe('a download', () => {
  beforeEach(() => clear(api.database.db));

  test('has a line for each ended run and a last line with their count', async () => {
    const { db } = api.database;
    const batch = await aBatchOf(3);
    const [said = '', failed = ''] = batch.run_ids;
    const lease = await sealAndEnd(db);
    expect(await read(urlOf(batch.id))).toMatchObject({ runs: [], end: { count: 0, complete: false } });
    await ingest(db, lease, says('Hello.'), { run_ids: [said] });
    await ingest(
      db,
      lease,
      { kind: 'errored', error_class: 'permanent', error_type: 'invalid_request_error', message: 'No.' },
      { run_ids: [failed] },
    );
    const { runs, end: last } = await read(urlOf(batch.id));
    const usage = {
      steps: 1,
      tool_calls: 0,
      failed_tool_calls: 0,
      unknown_tool_calls: 0,
      input_tokens: 100,
      output_tokens: 10,
      cache_write_tokens: 3,
      cache_read_tokens: 3,
      cost_usd: '0.000001',
    };
    expect(runs[0]).toEqual({
      custom_id: 'r0',
      run_id: toWireId('run', said),
      agent_id: toWireId('agent', agentIds[0] ?? ''),
      state: 'completed',
      ended_reason: 'end_turn',
      text: 'Hello.',
      result: null,
      error: null,
      steps: 1,
      usage,
      cost_usd: '0.000001',
      attempts: 1,
      cursor: expect.any(String),
    });
    expect(runs[1]).toMatchObject({
      custom_id: 'r1',
      state: 'failed',
      ended_reason: 'invalid_request',
      text: null,
      error: { message: 'No.' },
    });
    expect(last).toEqual({ count: 2, complete: false, cursor: expect.any(String) });
    // The same numbers as in the list of runs.
    const listed = (await api.call('GET', `/v1/runs/run-${said}`)).body;
    expect([listed.usage, listed.attempts, listed.error]).toEqual([usage, 1, null]);
  });

  test('has the typed result instead of the text, and the last text of several', async () => {
    const { db } = api.database;
    const batch = await aBatchOf(2);
    await ingest(db, await sealAndEnd(db), callsTools());
    const chunk = await claimToolsChunk(db, { owner: 'alice', lease_duration_ms: 30_000 });
    if (chunk === null) throw new Error('There is no chunk of calls.');
    await act(db, chunk);
    await ingest(db, await sealAndEnd(db), says('The end.'));
    await sql`update run set result = '{"team": 7}' where id = ${batch.run_ids[1]}::uuid`.execute(db);
    const { runs } = await read(urlOf(batch.id, 'include=messages'));
    expect(runs.map(({ text, result, steps }) => [text, result, steps])).toEqual([
      ['The end.', null, 2],
      [null, { team: 7 }, 2],
    ]);
    expect(runs[0]?.['messages'].map((message: Line) => message['message_type'])).toEqual([
      'user_message',
      'tool_call_message',
      'tool_return_message',
      'assistant_message',
    ]);
    const listed = await api.call('GET', `/v1/runs/${runs[0]?.['run_id']}/messages`);
    expect(runs[0]?.['messages']).toEqual(listed.body);
  });

  test('has the memory writes of each run, also of blocks that many runs write', async () => {
    const { db, pool } = api.database;
    const batch = await accept(
      db,
      agentIds.map((id, place) => ({ ...aRun(id), custom_id: `w${place}` })),
    );
    await ingest(db, await sealAndEnd(db), DONE);
    const write = (blockOf: string, revision: number, runId: string | undefined, value: string) =>
      pool.query(
        `insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on, batch_id, run_id,
                                     step_number, tool_use_id, resolution)
         select a.block_id, $2, r.project_id, $4, 100000, false, 1, r.batch_id, r.id, 1, 'toolu_1', 'clean'
           from run r, agent_block a where r.id = $3 and a.agent_id = $1`,
        [blockOf, revision, runId, value],
      );
    const [first = '', second = ''] = agentIds;
    await write(first, 2, batch.run_ids[0], 'one');
    await write(first, 3, batch.run_ids[0], 'two');
    // A block of another agent, which the requests of the run showed.
    await pool.query(
      `update step set block_ids = array(select block_id from agent_block where agent_id = $1), block_revisions = '{3}',
                       block_labels = '{human}' where run_id = $2`,
      [first, batch.run_ids[1]],
    );
    await write(first, 4, batch.run_ids[1], 'three');
    await write(second, 2, batch.run_ids[1], 'x'.repeat(5_000_000));
    await write(second, 3, batch.run_ids[2], 'of the third');
    const { runs } = await read(urlOf(batch.id, 'include=memory_changes'));
    const listed = (await api.call('GET', `/v1/batches/job-${batch.id}/memory-changes`)).body as Line[];
    for (const [place, run] of runs.slice(0, 2).entries()) {
      const own = listed.filter((change) => change['run_id'] === toWireId('run', batch.run_ids[place] ?? ''));
      expect(own).toHaveLength(2);
      expect(run['memory_changes']).toEqual(own);
    }
  });

  test.each([
    ['state=failed', ['r1', 'r2', 'r3']],
    ['state=failed,completed', ['r0', 'r1', 'r2', 'r3']],
    ['state=failed&state=completed', ['r0', 'r1', 'r2', 'r3']],
    ['state=cancelled', []],
    ['ended_reason=max_tokens', ['r2']],
    ['ended_reason=max_tokens&state=completed', []],
    ['error_group={group}', ['r1']],
    [`error_group=${'0'.repeat(32)}`, []],
  ])('is filtered by %s, in both orders', async (filter, expected) => {
    const { db } = api.database;
    const batch = await aBatchOf(4);
    const lease = await sealAndEnd(db);
    const errored = (message: string) =>
      ({ kind: 'errored', error_class: 'permanent', error_type: 'invalid_request_error', message }) as const;
    const outcomes = [
      DONE,
      errored('Field 17 is wrong.'),
      answer([{ type: 'text', text: '…' }], { stop_reason: 'max_tokens' }),
      errored('Too long.'),
    ];
    for (const [place, outcome] of outcomes.entries())
      await ingest(db, lease, outcome, { run_ids: [batch.run_ids[place] ?? ''], slot: place });
    await endBatch(batch);
    const group = await sql<{ fingerprint: string }>`
      select fingerprint from run_failure where run_id = ${batch.run_ids[1]}::uuid`.execute(db);
    const query = filter.replace('{group}', group.rows[0]?.fingerprint ?? '');
    for (const order of ['input', 'finished']) {
      const { runs, end: last } = await read(urlOf(batch.id, `order=${order}&${query}`));
      expect([customIds(runs), last['count'], last['complete']]).toEqual([expected, expected.length, true]);
    }
  });

  test('of a batch without runs is its last line', async () => {
    const batch = await aBatchOf(0);
    await endBatch(batch);
    for (const order of ['input', 'finished']) {
      const { runs, end: last } = await read(urlOf(batch.id, `order=${order}`));
      expect([runs, last['count'], last['complete']]).toEqual([[], 0, true]);
      expect(await read(urlOf(batch.id, `order=${order}&after=${last['cursor']}`))).toEqual({
        runs,
        end: last,
      });
    }
  });

  test('is linked by the batch, under both paths, and is no HEAD', async () => {
    const batch = await aBatchOf(1);
    const { body } = await api.call('GET', `/v1/messages/batches/job-${batch.id}`);
    expect(body.results_url).toBe(`/v1/batches/job-${batch.id}/results`);
    const long = await download(`/v1/messages/batches/job-${batch.id}/results`);
    expect((await download(body.results_url)).equals(long)).toBe(true);
    const head = await api.app.inject({ method: 'HEAD', url: body.results_url, headers: { authorization } });
    expect(head.statusCode).toBe(405);
  });

  test.each([
    ['gzip', true],
    ['GZIP;q=0.5', true],
    ['br, *', true],
    ['deflate, gzip;q=1.0, *;q=0', true],
    ['gzip;q=0', false],
    ['gzip;q=0.0, *', false],
    ['*;q=0', false],
    ['br', false],
    ['', false],
  ])('for a client that accepts %j is compressed: %s', async (header, isZipped) => {
    const batch = await aBatchOf(0);
    const { headers } = await api.app.inject({
      url: urlOf(batch.id),
      headers: { authorization, 'accept-encoding': header },
    });
    expect([headers['content-encoding'], headers.vary]).toEqual([
      isZipped ? 'gzip' : undefined,
      'accept-encoding',
    ]);
  });
});

describe('a refused download', () => {
  let batch: Accepted;
  let cursors: Readonly<Record<string, string>> = {};
  beforeAll(async () => {
    batch = await aBatchOf(2);
    await ingest(api.database.db, await sealAndEnd(api.database.db), DONE);
    const other = await aBatchOf(1);
    const cursorOf = async (id: string, query: string): Promise<string> =>
      (await read(urlOf(id, query))).end['cursor'];
    cursors = {
      other: await cursorOf(other.id, ''),
      finished: await cursorOf(batch.id, 'order=finished'),
      input: await cursorOf(batch.id, ''),
      failed: await cursorOf(batch.id, 'state=failed'),
      run: `run-${batch.run_ids[0]}`,
    };
  });

  test.each([
    ['of another batch', 'after={other}'],
    ['of the other order', 'after={finished}'],
    ['of the other order', 'order=finished&after={input}'],
    ['of another filter', 'after={failed}'],
    ['of another include', 'include=messages&after={input}'],
    ['that is an id', 'after={run}'],
    ['that is cut', 'after={input}'.slice(0, -1).concat('.1}')],
    ['that is made up', 'after=00000000.1.1.0'],
  ])('names a cursor %s: %s', async (_what, query) => {
    const url = urlOf(
      batch.id,
      query.replaceAll(/\{(\w+)(\.1)?\}/g, (_, name: string, more = '') => `${cursors[name]}${more}`),
    );
    const { status, body } = await api.call('GET', url);
    expect([status, body.code, body.errors[0].path]).toEqual([422, 'validation_failed', '?after']);
  });

  test.each([
    ['state=running', '?state'],
    ['state=queued', '?state'],
    ['ended_reason=bored', '?ended_reason'],
    ['include=steps', '?include'],
    ['order=random', '?order'],
    ['include=retries&order=finished', '?include'],
    ['limit=5', '?limit'],
    ['error_group=nope', '?error_group'],
  ])('names %s', async (query, path) => {
    const { status, body } = await api.call('GET', urlOf(batch.id, query));
    expect([status, body.errors[0].path.split('.')[0]]).toEqual([422, path]);
  });

  test.each(['identity', 'gzip'])('that fails before its first line is a problem: %s', async (encoding) => {
    const { pool } = api.database;
    await pool.query('alter table run_failure rename to run_failure_away');
    const { statusCode, headers, body } = await api.app.inject({
      url: urlOf(batch.id, `error_group=${'0'.repeat(32)}`),
      headers: { authorization, 'accept-encoding': encoding },
    });
    await pool.query('alter table run_failure_away rename to run_failure');
    expect([statusCode, headers['content-encoding'], headers['content-type']]).toEqual([
      500,
      undefined,
      'application/problem+json',
    ]);
    expect(JSON.parse(body)).toMatchObject({ code: 'internal' });
  });

  test('is a 404 for an unknown batch and for a batch of another project', async () => {
    expect((await api.call('GET', urlOf(UNKNOWN_UUID))).status).toBe(404);
    const other = await aBatchOf(0);
    await api.database.pool.query('update batch set project_id = $1 where id = $2', [
      OTHER_PROJECT,
      other.id,
    ]);
    expect((await api.call('GET', urlOf(other.id))).status).toBe(404);
  });
});

test.each([
  [1, [200, 200]],
  [0, [503, 503]],
])('of %i downloads at once, two in turn answer %j', async (downloadsMax, statuses) => {
  const batch = await accept(api.database.db, [aRun(agentIds[0] ?? '')]);
  const app = buildServer({
    db: api.database.db,
    bell: { ring: async () => undefined },
    apiKey: API_KEY,
    model: 'simulator',
    downloadsMax,
  });
  const answered: number[] = [];
  for (let turn = 0; turn < 2; turn++)
    answered.push((await app.inject({ url: urlOf(batch.id), headers: { authorization } })).statusCode);
  await app.close();
  expect(answered).toEqual(statuses);
});

describe.each(['input', 'finished'])('a file with order=%s', (order) => {
  const random = numbersFrom(29);
  let batch: Accepted;
  let whole = '';
  beforeAll(async () => {
    batch = await aBatchOf(300);
    await endAll(batch, random, shuffled(batch.run_ids, random));
    whole = (await download(urlOf(batch.id, `order=${order}`))).toString();
  });

  test('has each run once, in its order', async () => {
    const lines = parse(whole);
    const ids = lines.slice(0, -1).map((line) => line['run_id'].slice(4));
    expect(lines.at(-1)?.['end']).toMatchObject({ count: 300, complete: true });
    if (order === 'input') expect(ids).toEqual(batch.run_ids);
    else {
      const { rows } = await sql<{ run_ids: readonly string[] }>`
        select run_ids from ended_runs where batch_id = ${batch.id}::uuid order by ended_at`.execute(
        api.database.db,
      );
      expect(ids).toEqual(rows.flatMap((row) => row.run_ids));
    }
  });

  test.each(['identity', 'gzip'])(
    'that is cut at 20 random bytes and resumed is the same file: %s',
    async (encoding) => {
      const sent = await download(urlOf(batch.id, `order=${order}`), encoding);
      for (let cut = 0; cut < 20; cut++) {
        const received = sent.subarray(0, Math.floor(random() * sent.length));
        const text = (
          encoding === 'gzip' ? gunzipSync(received, { finishFlush: constants.Z_SYNC_FLUSH }) : received
        ).toString('latin1');
        // Bytes as characters, because the cut may be within a character.
        const kept = Buffer.from(text.slice(0, text.lastIndexOf('\n') + 1), 'latin1').toString();
        const last = parse(kept).at(-1);
        const after = last === undefined ? '' : `&after=${last['cursor']}`;
        const rest = await download(urlOf(batch.id, `order=${order}${after}`));
        expect(kept + rest.toString() === whole).toBe(true);
      }
    },
  );

  test('goes on behind its last line without runs', async () => {
    const last = parse(whole).at(-1)?.['end'];
    expect(await read(urlOf(batch.id, `order=${order}&after=${last.cursor}`))).toEqual({
      runs: [],
      end: last,
    });
  });
});

test('order=finished, read while four workers commit, has each run once', async () => {
  const { db } = api.database;
  const random = numbersFrom(7);
  await clear(db);
  const batch = await aBatchOf(400);
  const lease = await sealAndEnd(db);
  let working = 4;
  const workers = Array.from({ length: 4 }, async (_, worker) => {
    const own = batch.run_ids.slice(100 * worker, 100 * (worker + 1));
    for (let at = 0; at < own.length;) {
      const run_ids = own.slice(at, (at += 1 + Math.floor(random() * 5)));
      await ingest(db, lease, DONE, { run_ids, slot: Math.floor(random() * 8) });
    }
    working -= 1;
    if (working === 0) await endBatch(batch);
  });
  const seen: string[] = [];
  let readings = 0;
  const follow = async (): Promise<Line> => {
    for (let after = ''; ; readings++) {
      const { runs, end: last } = await read(urlOf(batch.id, `order=finished${after}`));
      seen.push(...runs.map((run) => run['run_id'].slice(4)));
      if (last['complete'] === true) return last;
      after = `&after=${last['cursor']}`;
    }
  };
  const [last] = await Promise.all([follow(), ...workers]);
  expect(readings).toBeGreaterThan(3);
  expect(seen).toHaveLength(400);
  expect(seen.toSorted()).toEqual(batch.run_ids.toSorted());
  expect(last['count']).toBe(400);
});

test('order=input, cut while the batch runs and resumed after its end, does not count as complete', async () => {
  const { db } = api.database;
  const batch = await aBatchOf(3);
  const lease = await sealAndEnd(db);
  await ingest(db, lease, DONE, { run_ids: [batch.run_ids[1] ?? ''] });
  const [cut] = (await read(urlOf(batch.id))).runs;
  await ingest(db, lease, DONE);
  await endBatch(batch);
  const rest = await read(urlOf(batch.id, `after=${cut?.['cursor']}`));
  expect([customIds(rest.runs), rest.end['count'], rest.end['complete']]).toEqual([['r2'], 2, false]);
  expect((await read(urlOf(batch.id))).end).toMatchObject({ count: 3, complete: true });
});

test('include=retries has the last attempt of each run over the chain, with and without a custom id', async () => {
  const { db } = api.database;
  const agentId = agentIds[0] ?? '';
  /** Makes a batch; as a retry, of the runs of `of` at `places`. */
  const start = async (
    ids: readonly (string | null)[],
    of: Accepted | null,
    places: readonly number[],
  ): Promise<Accepted> => {
    const batch = await accept(
      db,
      ids.map((custom_id) => ({ ...aRun(agentId), isolated: true, custom_id })),
    );
    if (of === null) return batch;
    await sql`update batch set retry_of = ${of.id}::uuid where id = ${batch.id}::uuid`.execute(db);
    for (const [ordinal, place] of places.entries())
      await sql`
        insert into batch_retry_run (batch_id, ordinal, project_id, run_id, retry_run_id)
        select ${batch.id}::uuid, ${ordinal}, project_id, ${of.run_ids[place]}::uuid, ${batch.run_ids[ordinal]}::uuid
          from batch where id = ${batch.id}::uuid`.execute(db);
    return batch;
  };
  const attempt = async (
    ids: readonly (string | null)[],
    of: Accepted | null,
    places: readonly number[],
    text: string,
  ): Promise<Accepted> => {
    const batch = await start(ids, of, places);
    await ingest(db, await sealAndEnd(db), says(text));
    await endBatch(batch);
    return batch;
  };
  const first = await attempt(['a', 'b', 'c', 'd', null], null, [], 'first');
  const second = await attempt(['b', 'c', null], first, [1, 2, 4], 'second');
  await attempt(['d'], first, [3], 'beside');
  const third = await attempt(['c', null], second, [1, 2], 'third');
  const shown = async (batch: Accepted, query = '') => {
    const { runs, end: last } = await read(urlOf(batch.id, `include=retries${query}`));
    return [runs.map(({ custom_id, text }) => `${custom_id} ${text}`), last['count'], last['complete']];
  };
  expect(await shown(first)).toEqual([['a first', 'b second', 'c third', 'd beside', 'null third'], 5, true]);
  expect(await shown(second)).toEqual([['b second', 'c third', 'null third'], 3, true]);
  const { runs } = await read(urlOf(first.id, 'include=retries,memory_changes,messages'));
  expect(runs[2]).toMatchObject({
    batch_id: toWireId('job', third.id),
    run_id: toWireId('run', third.run_ids[0] ?? ''),
  });
  expect((await read(urlOf(first.id))).runs.map((run) => run['text'])).toEqual(Array(5).fill('first'));
  // An attempt under way: its custom id has no line until it ends.
  await start(['b'], second, [0]);
  expect(await shown(first)).toEqual([['a first', 'c third', 'd beside', 'null third'], 4, false]);
});

describe('a stream', () => {
  let batch: Accepted;
  let port = 0;
  beforeAll(async () => {
    batch = await aBatchOf(120);
    await ingest(api.database.db, await sealAndEnd(api.database.db), says('x'));
    // Texts that gzip does not make small.
    await sql`
      update message m set content = json_build_array(json_build_object('type', 'text', 'text', (
               select string_agg(md5(m.run_id::text || i), '') from generate_series(1, 15000) i)))
       where role = 'assistant' and run_id = any(${[...batch.run_ids]}::uuid[])`.execute(api.database.db);
    await endBatch(batch);
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    port = (api.app.server.address() as { port: number }).port;
  });

  /** Opens a download and resolves with its answer before the body is read. */
  const open = (encoding = 'identity') =>
    new Promise<IncomingMessage>((resolve, reject) => {
      get(
        { port, path: urlOf(batch.id), headers: { authorization, 'accept-encoding': encoding } },
        resolve,
      ).on('error', reject);
    });

  /** Reads a body to its end, or to the loss of the connection. */
  const drain = async (answered: IncomingMessage) => {
    let text = '';
    let failure: Error | null = null;
    try {
      for await (const part of answered) text = (text + String(part)).slice(-10_000);
    } catch (error) {
      failure = error as Error;
    }
    return { text, failure };
  };

  test('waits for a slow client, and stops reading when the client leaves', async () => {
    let reads = 0;
    const count = (): void => void (reads += 1);
    api.database.pool.on('acquire', count);
    const answered = await open();
    answered.once('readable', () => answered.destroy());
    await new Promise((resolve) => answered.once('close', resolve));
    // A later download is answered whole; 60 pages are behind it.
    const whole = await drain(await open());
    api.database.pool.off('acquire', count);
    expect(whole.failure).toBeNull();
    expect(whole.text).toContain('"end":');
    const ofWhole = 2 * (120 / 5 + 3);
    expect(reads).toBeLessThan(1.7 * ofWhole);
  });

  test.each(['identity', 'gzip'])('breaks off when its batch is deleted meanwhile: %s', async (encoding) => {
    const answered = await open(encoding);
    await api.database.pool.query('update batch set project_id = $1 where id = $2', [
      OTHER_PROJECT,
      batch.id,
    ]);
    const { text, failure } = await drain(answered);
    expect(failure).toMatchObject({ code: 'ECONNRESET' });
    expect(text).not.toContain('"end":');
    await api.database.pool.query(
      `update batch set project_id = (select project_id from run where batch_id = $1 limit 1) where id = $1`,
      [batch.id],
    );
  });

  test('goes on without runs that are deleted meanwhile', async () => {
    const answered = await open();
    const gone = batch.run_ids.slice(-10);
    await sql`delete from run where id = any(${gone}::uuid[])`.execute(api.database.db);
    const { text, failure } = await drain(answered);
    expect(failure).toBeNull();
    expect(text).toContain('"end":{"count":110,');
    const byEnd = await read(urlOf(batch.id, 'order=finished'));
    expect(byEnd.end['count']).toBe(110);
  });

  test('breaks off when the server shuts down', async () => {
    const answered = await open();
    const closing = api.app.close();
    const { failure } = await drain(answered);
    expect(failure).toMatchObject({ code: 'ECONNRESET' });
    await closing;
  });
});
