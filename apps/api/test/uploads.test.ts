import { gzipSync, zstdCompressSync } from 'node:zlib';
import { SHIPPED_PRICES } from '@nightshift/agent-core';
import { auditInvariants, claimDueBatches, deleteAgent, inTransaction } from '@nightshift/db';
import { acceptPortion } from '@nightshift/intake';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { API_KEY, countRows, createAgent, openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
let agent_id: string;
beforeAll(async () => {
  api = await openApi();
  agent_id = await createAgent(api);
});
afterAll(() => api.close());
afterEach(async () => {
  expect(await auditInvariants(api.database.db)).toEqual([]);
});

/** Uploads lines, or bytes as they are. */
async function upload(
  lines: readonly unknown[] | Buffer | string,
  headers: Record<string, string> = {},
  url = '/v1/batches',
) {
  const payload =
    typeof lines === 'string' || Buffer.isBuffer(lines)
      ? lines
      : lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  const answer = await api.app.inject({
    method: 'POST',
    url,
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/jsonl', ...headers },
    payload,
  });
  return { status: answer.statusCode, headers: answer.headers, body: answer.json() };
}

const request = (custom_id: string, extra: object = {}) => ({ agent_id, input: 'Go.', custom_id, ...extra });
const numbered = (count: number, of: (index: number) => object = () => ({})) =>
  Array.from({ length: count }, (_, index) => request(`task-${index}`, of(index)));
const staged = async () =>
  (
    await api.database.pool.query<{ uploads: number; lines: number }>(
      `select (select count(*)::int from upload) as uploads,
              (select count(*)::int from staged_line l where not exists (select from batch b where b.id = l.batch_id)) as lines`,
    )
  ).rows[0];
const linesOf = async (id: string) =>
  (
    await api.database.pool.query<{ ordinal: number; custom_id: string; run: Record<string, unknown> }>(
      'select ordinal, custom_id, run from staged_line where batch_id = $1 order by ordinal',
      [id.slice('job-'.length)],
    )
  ).rows;

/** Makes the runs of all received batches, two lines a transaction. */
async function acceptAll() {
  const { db } = api.database;
  const claimant = { owner: 'test', lease_duration_ms: 60_000 };
  for (const { id, lease_epoch: epoch } of await claimDueBatches(db, ['receiving'], 100, claimant)) {
    const settings = { prices: SHIPPED_PRICES, agents_per_portion: 500 };
    let kind: string;
    do
      ({ kind } = await inTransaction(db, (trx) =>
        acceptPortion(trx, { table: 'batch', id, epoch }, settings),
      ));
    while (kind === 'portion');
  }
}

/** Makes every change of a table fail, until the function `fail` is dropped. */
const failOn = (table: string, change: 'insert' | 'delete') =>
  api.database.pool.query(`
    create function fail() returns trigger language plpgsql as 'begin raise ''No change now.''; end';
    create trigger fail before ${change} on ${table} for each row execute function fail();
  `);

/** The errors of a refused upload, after which nothing is stored or staged. */
async function refused(...[lines, headers, url]: Parameters<typeof upload>) {
  const [before, wasStaged] = [await countRows(api), await staged()];
  const { status, body } = await upload(lines, headers, url);
  expect(await countRows(api)).toEqual(before);
  expect(await staged()).toEqual(wasStaged);
  return { status, code: body.code, errors: body.errors, total: body.errors_total, message: body.message };
}

describe('an upload', () => {
  test.each([
    ['plain', {}, (bytes: Buffer) => bytes],
    ['gzip', { 'content-encoding': 'gzip' }, gzipSync],
    ['zstd', { 'content-encoding': 'zstd' }, zstdCompressSync],
  ] as const)('of requests, %s, becomes a batch that is received', async (_name, headers, encode) => {
    const bytes = Buffer.from(
      numbered(12_000)
        .map((line) => JSON.stringify(line))
        .join('\n'),
    );
    const { status, body } = await upload(encode(bytes), headers);
    expect([status, body.state, body.counts.total]).toEqual([200, 'receiving', 12_000]);
    const rows = await linesOf(body.id);
    expect(rows.map(({ custom_id }) => custom_id)).toEqual(
      numbered(12_000).map(({ custom_id }) => custom_id),
    );
    expect(rows[11_999]?.run).toEqual({
      agent_id: agent_id.slice('agent-'.length),
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Go.' }], otid: null, name: null }],
    });
    expect((await staged())?.uploads).toBe(0);
  });

  test('may begin with its batch', async () => {
    const batch = {
      metadata: { night: 7 },
      apply: 'review',
      pilot: { runs: 2, then: 'pause' },
      max_cost_usd: 5,
    };
    const { status, body } = await upload([
      { batch },
      request('a', { max_steps: 3, max_output_tokens: 9_000 }),
    ]);
    expect([status, body.metadata, body.apply, body.pilot.runs]).toEqual([200, { night: 7 }, 'review', 2]);
    expect((await linesOf(body.id))[0]?.run).toMatchObject({
      max_steps: 3,
      cap: { cost_nanousd: null, output_tokens: 9_000 },
    });
  });

  test('with a template takes its inputs, a line each', async () => {
    const template = { agent_id, input: 'Hi {{ name }}.', max_steps: 4 };
    const { body } = await upload([
      { batch: { template } },
      ...['Ann', 'Bo'].map((name) => ({ custom_id: name, variables: { name } })),
    ]);
    expect((await linesOf(body.id)).map(({ custom_id, run }) => [custom_id, run])).toEqual(
      ['Ann', 'Bo'].map((name) => [
        name,
        {
          messages: [
            { role: 'user', content: [{ type: 'text', text: `Hi ${name}.` }], otid: null, name: null },
          ],
        },
      ]),
    );
    const { source } = await api.database.db
      .selectFrom('batch')
      .select('source')
      .where('id', '=', body.id.slice(4))
      .executeTakeFirstOrThrow();
    expect(source).toMatchObject({ kind: 'lines', shared: { max_steps: 4, isolated: true } });
  });

  test('is taken under the path of Letta and as ndjson too, with empty lines at its end', async () => {
    const lines = `${JSON.stringify(request('a'))}\n\n\n`;
    const headers = { 'content-type': 'application/x-ndjson; charset=utf-8' };
    const { status, body } = await upload(lines, headers, '/v1/messages/batches');
    expect([status, body.counts.total]).toEqual([200, 1]);
  });

  test('stores what a JSON body stores', async () => {
    const requests = [
      request('a', { conversation: 'isolated', deadline: '2999-01-01T00:00:00Z', max_cost_usd: 1 }),
      { agent_id, messages: [{ role: 'user', content: 'A\\u0000\\ud800b', otid: 'o', name: 'n' }] },
      request('c', { client_tools: [{ name: 'ask' }], response_format: { type: 'json_object' } }),
    ];
    const lines = await upload(requests);
    const json = await api.call('POST', '/v1/batches', { requests });
    expect(lines.status).toBe(200);
    await acceptAll();
    const stored = async (id: string) =>
      (
        await api.database.pool.query(
          `select r.ordinal, r.custom_id, r.agent_id, r.max_steps, r.deadline_at, r.definition_id, r.max_cost_nanousd,
                  r.max_output_tokens, coalesce(q.messages::text, m.content::text) as input
             from run r left join queued_input q on q.run_id = r.id
             left join message m on m.conversation_id = r.conversation_id and m.seq = r.first_seq
            where r.batch_id = $1 order by r.ordinal`,
          [id.slice(4)],
        )
      ).rows;
    const [byLines, byJson] = [await stored(lines.body.id), await stored(json.body.id)];
    const withoutInput = (rows: typeof byLines) => rows.map(({ input: _, ...rest }) => rest);
    expect(withoutInput(byLines)).toEqual(withoutInput(byJson));
    // The agent's first conversation is held, so only the isolated run has its message in a conversation.
    expect(byLines[0].input).toBe(byJson[0].input);
    expect(byLines[2].input).toBe(byJson[2].input);
  });
});

describe('an upload is refused, with nothing stored or staged, for', () => {
  const line = (n: number, path: string, message: string) => ({ path: `/lines/${n}${path}`, message });

  test.each([
    ['no line', ''],
    ['empty lines alone', '\n\n'],
    ['a batch without a line', '{"batch":{}}\n'],
  ])('%s', async (_name, bytes) => {
    const { status, errors } = await refused(bytes);
    expect([status, errors]).toEqual([400, [{ path: '/lines', message: 'must hold a request' }]]);
  });

  test('a byte order mark, CR LF, an empty line in between, and bytes that are not UTF-8', async () => {
    const text = JSON.stringify(request('a'));
    const bom = 'begins with a byte order mark: save the file as UTF-8 without it';
    expect((await refused(`\uFEFF${text}\n`)).errors).toEqual([line(1, '', bom)]);
    const crlf = 'ends with CR LF: end lines with LF alone';
    expect((await refused(`${text}\n${text}\r\n`)).errors).toEqual([line(2, '', crlf)]);
    expect((await refused(`${text}\n\n${text}\n`)).errors).toEqual([line(2, '', 'is empty: remove it')]);
    const bytes = Buffer.from(`${text}\n${text}\n${text}`);
    bytes[bytes.length - 5] = 0xff;
    expect((await refused(bytes)).errors).toEqual([line(3, '', 'is not UTF-8')]);
  });

  test('a first line that is neither form, and a first line of a fleet', async () => {
    const neither = 'is neither {"batch": {…}} nor a request with an agent_id';
    for (const first of [{ foo: 1 }, [1], 7, { requests: [] }])
      expect((await refused([first, request('a')])).errors).toEqual([line(1, '', neither)]);
    const fleet = 'is of a fleet, which has no lines: send it as application/json';
    expect((await refused([{ batch: { agents: {}, input: 'Hi' } }, request('a')])).errors).toEqual([
      line(1, '/batch/agents', fleet),
    ]);
    expect(
      (await refused([{ batch: { requests: [], deadline: 'x' }, more: 1 }, request('a')])).errors,
    ).toEqual([
      line(1, '/batch/deadline', 'must be a time such as 2030-01-31T06:00:00Z'),
      line(1, '/batch/requests', 'is not known here'),
      line(1, '/more', 'is not known here'),
    ]);
    expect((await refused([{ batch: { hold_if: { shrinks_by: 0.5 } } }, request('a')])).errors).toEqual([
      line(1, '/batch/hold_if', 'needs apply: review'),
    ]);
    expect((await refused([{ batch: { callback_events: ['paused'] } }, request('a')])).errors).toEqual([
      line(1, '/batch/callback_events', 'needs callback_url: the events are sent there'),
    ]);
  });

  test('a cut or wrong gzip, a cut zstd, and another encoding', async () => {
    const text = Buffer.from(
      numbered(3_000, (n) => ({ input: `Task ${n} ${Math.sin(n)}` }))
        .map((l) => JSON.stringify(l))
        .join('\n'),
    );
    const gzip = gzipSync(text);
    const of = (coding: string) => ({ 'content-encoding': coding });
    for (const [bytes, coding] of [
      [gzip.subarray(0, gzip.length - 9), 'gzip'],
      [gzip.subarray(0, 2_000), 'gzip'],
      [text, 'gzip'],
      [zstdCompressSync(text).subarray(0, -9), 'zstd'],
      [text, 'zstd'],
    ] as const) {
      const { status, code, message } = await refused(bytes, of(coding));
      expect([status, code]).toEqual([400, 'invalid_argument']);
      expect(message).toContain(`is cut, or is not ${coding}`);
    }
    expect((await refused(text, of('br'))).status).toBe(415);
    expect((await refused(text, of('gzip, gzip'))).status).toBe(415);
    expect((await refused(text, {}, '/v1/batches/estimate')).status).toBe(415);
  });

  test('gzip and zstd without their Content-Encoding, and twice; the error says what to send', async () => {
    const text = `${JSON.stringify(request('a'))}\n`;
    const messageOf = async (bytes: Buffer, headers: Record<string, string> = {}) => {
      const { status, code, message } = await refused(bytes, headers);
      expect([status, code]).toEqual([400, 'invalid_argument']);
      return message;
    };
    expect(await messageOf(gzipSync(text))).toContain(
      'The upload is encoded as gzip: send it with `Content-Encoding: gzip`.',
    );
    expect(await messageOf(zstdCompressSync(text))).toContain(
      'The upload is encoded as zstd: send it with `Content-Encoding: zstd`.',
    );
    expect(await messageOf(gzipSync(gzipSync(text)), { 'content-encoding': 'gzip' })).toContain(
      'is encoded as gzip below its gzip: encode it once',
    );
  });

  test('lines without their ends, as after curl -d; the error says how to keep them', async () => {
    const hint =
      'It holds several values: end each with a newline. `curl -d` removes newlines, `curl --data-binary` keeps them';
    const joined = (count: number, extra: object = {}) =>
      numbered(count, () => extra)
        .map((item) => JSON.stringify(item))
        .join('');
    for (const url of ['/v1/batches', '/v1/messages/append']) {
      const short = await refused(joined(3), {}, url);
      expect([short.status, short.errors]).toEqual([422, [line(1, '', expect.stringContaining(hint))]]);
    }
    const long = await refused(joined(200, { input: 'x'.repeat(100_000) }));
    expect([long.status, long.errors]).toEqual([
      413,
      [line(1, '', `is longer than 16,777,216 bytes. ${hint}`)],
    ]);
    const { errors } = await refused(`${joined(1)} 7\n`);
    expect(JSON.stringify(errors)).not.toContain('several values');
  });

  test('a decompression bomb: a line that never ends, and lines without end', async () => {
    const headers = { 'content-encoding': 'gzip' };
    const long = await refused(gzipSync(Buffer.alloc(64 * 1024 * 1024, 0x20)), headers);
    expect([long.status, long.errors]).toEqual([413, [line(1, '', 'is longer than 16,777,216 bytes')]]);
    const empty = await refused(gzipSync(Buffer.alloc(8 * 1024 * 1024, 0x0a)), headers);
    expect(empty.status).toBe(413);
    expect(empty.message).toContain('more than 1,000,001 lines');
  });

  test('a line too long, among others', async () => {
    const long = JSON.stringify(request('b', { input: 'x'.repeat(16 * 1024 * 1024) }));
    const { status, errors } = await refused(`${JSON.stringify(request('a'))}\n${long}\n`);
    expect([status, errors]).toEqual([413, [line(2, '', 'is longer than 16,777,216 bytes')]]);
  });

  test('wrong lines deep in the file, of which it names a hundred with the number of all', async () => {
    const lines: unknown[] = numbered(16_000);
    lines[7_350] = request('bad', { max_steps: 0, foo: 1 });
    lines[7_351] = 5;
    for (let n = 9_000; n < 9_200; n++) lines[n] = { agent_id };
    lines[15_999] = request('last', { agent_id: `agent-${UNKNOWN_UUID}` });
    const { status, errors, total, message } = await refused(lines);
    expect([status, errors.length, total]).toEqual([422, 100, 204]);
    expect(errors.slice(0, 4)).toEqual([
      line(7_351, '/max_steps', 'Too small: expected number to be >=1'),
      line(7_351, '/foo', 'is not known here'),
      line(7_352, '', 'Invalid input: expected object, received number'),
      line(9_001, '', 'must have exactly one of messages and input'),
    ]);
    expect(message).toContain('`errors` names 100 of 204');
  });

  test('text that is not JSON, and numbers that lose digits', async () => {
    const { errors } = await refused(
      `${JSON.stringify(request('a'))}\n{"agent_id"\n{"agent_id":"${agent_id}","input":"x","max_steps":90071992547409931}\n{"__proto__":1}`,
    );
    expect(errors).toMatchObject([
      { path: '/lines/2', message: expect.stringContaining('Line 2 is not JSON') },
      { path: '/lines/3/max_steps', message: expect.stringContaining('2^53') },
      { path: '/lines/4', message: expect.stringContaining('__proto__') },
    ]);
  });

  test('a wrong line while the database refuses the lines before it', async () => {
    await failOn('staged_line', 'insert');
    const lines = [...numbered(9_000, () => ({ input: 'x'.repeat(200) })), { agent_id }];
    const { status, errors } = await refused(lines);
    await api.database.pool.query('drop function fail cascade');
    expect([status, errors]).toEqual([422, [line(9_001, '', 'must have exactly one of messages and input')]]);
  });

  test('an unknown agent in the last line', async () => {
    const lines = [...numbered(6_000), request('last', { agent_id: `agent-${UNKNOWN_UUID}` })];
    const { status, code, errors } = await refused(lines);
    expect([status, code]).toEqual([404, 'not_found']);
    expect(errors).toEqual([line(6_001, '/agent_id', `There is no agent agent-${UNKNOWN_UUID}.`)]);
  });

  test('all that a batch in JSON is refused for', async () => {
    const past = '2020-01-01T00:00:00Z';
    expect((await refused([request('a', { deadline: past })])).errors[0].path).toBe('/lines/1/deadline');
    expect((await refused([{ batch: { deadline: past } }, request('a')])).errors[0].path).toBe(
      '/lines/1/batch/deadline',
    );
    const unpriced = await createAgent(api);
    await api.database.pool.query("update agent set model = 'anthropic/claude-unpriced' where id = $1", [
      unpriced.slice(6),
    ]);
    expect(
      (await refused([request('a'), request('b', { agent_id: unpriced, max_cost_usd: 1 })])).errors[0].path,
    ).toBe('/lines/2/max_cost_usd');
    expect(
      (await refused([{ batch: { max_cost_usd: 1 } }, request('b', { agent_id: unpriced })])).errors[0].path,
    ).toBe('/lines/1/batch/max_cost_usd');
    const long = 'word '.repeat(2_000_000);
    expect((await refused([request('a'), request('b', { input: long })])).errors[0].path).toBe('/lines/2');
    const twice = [{ name: 'ask' }, { name: 'ask' }];
    expect((await refused([request('a'), request('b', { client_tools: twice })])).errors[0].path).toBe(
      '/lines/2/client_tools',
    );
    const schema = { type: 'json_schema', json_schema: { schema: { type: 'nothing' } } };
    expect((await refused([request('a'), request('b', { response_format: schema })])).errors[0].path).toBe(
      '/lines/2/response_format/json_schema/schema',
    );
    const low = await refused([{ batch: { max_cost_usd: 0.000001 } }, request('a'), request('b')]);
    expect([low.status, low.errors[0].path]).toEqual([422, '/lines/1/batch/max_cost_usd']);
  });

  test('custom ids that an earlier line has, of which both are named', async () => {
    const lines = [
      { batch: {} },
      ...numbered(6_000),
      request('task-3'),
      request('task-3'),
      request('task-5998'),
    ];
    const { errors, total } = await refused(lines);
    expect(errors).toEqual([
      line(6_002, '/custom_id', 'is the same as the custom_id of /lines/5'),
      line(6_003, '/custom_id', 'is the same as the custom_id of /lines/5'),
      line(6_004, '/custom_id', 'is the same as the custom_id of /lines/6000'),
    ]);
    expect(total).toBe(3);
  });

  test('a wrong template, an unknown agent of it, and wrong inputs', async () => {
    const inputs = [{ custom_id: 'a', variables: { name: 'Ann' } }];
    const first = (template: object) => ({
      batch: { template: { agent_id, input: 'Hi {{ name }}.', ...template } },
    });
    expect((await refused([first({ input: '{% if %}' }), ...inputs])).errors[0].path).toBe(
      '/lines/1/batch/template/input',
    );
    const unknown = await refused([first({ agent_id: `agent-${UNKNOWN_UUID}` }), ...inputs]);
    expect([unknown.status, unknown.errors[0].path]).toEqual([404, '/lines/1/batch/template/agent_id']);
    const { errors, total } = await refused([
      first({}),
      ...inputs,
      { custom_id: 'b', variables: {} },
      request('c'),
    ]);
    expect(total).toBe(4);
    expect(errors.map(({ path }: { path: string }) => path)).toEqual([
      '/lines/3/variables',
      '/lines/4/variables',
      '/lines/4/agent_id',
      '/lines/4/input',
    ]);
  });
});

describe('a repeated upload', () => {
  test('under its key and with its lines returns the batch, also encoded otherwise or with its agent deleted', async () => {
    const gone = await createAgent(api);
    const lines = numbered(3, () => ({ agent_id: gone }));
    const headers = { 'idempotency-key': 'upload-1' };
    const first = await upload(lines, headers);
    await inTransaction(api.database.db, (trx) => deleteAgent(trx, PROJECT_ID, gone.slice('agent-'.length)));
    const bytes = gzipSync(lines.map((one) => `${JSON.stringify(one)}\n`).join(''));
    const again = await upload(bytes, { ...headers, 'content-encoding': 'gzip' });
    expect([again.status, again.body.id]).toEqual([200, first.body.id]);
    expect(again.headers['idempotent-replayed']).toBe('true');
  });

  test('under its key with other lines is refused', async () => {
    const headers = { 'idempotency-key': 'upload-2' };
    await upload(numbered(3), headers);
    expect((await refused(numbered(4), headers)).code).toBe('idempotency_mismatch');
    expect((await api.call('POST', '/v1/batches', { requests: numbered(3) }, headers)).status).toBe(422);
  });

  test('at the same time becomes one batch', async () => {
    const headers = { 'idempotency-key': 'upload-3' };
    const before = (await countRows(api))['batch'] ?? 0;
    const answers = await Promise.all([1, 2, 3, 4].map(() => upload(numbered(5), headers)));
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    expect((await countRows(api))['batch']).toBe(before + 1);
    expect(await staged()).toEqual({ uploads: 0, lines: 0 });
  });

  test('without a key, as the retry of a client, returns the batch', async () => {
    const headers = { 'x-stainless-retry-count': '1' };
    const lines = [request('only-once')];
    const first = await upload(lines, headers);
    expect((await upload(lines, headers)).body.id).toBe(first.body.id);
  });
});

describe('messages', () => {
  const said = (content: string) => ({ messages: [{ role: 'user', content }] });

  test('are appended by line', async () => {
    const [one, two] = [await createAgent(api), await createAgent(api)];
    const lines = [one, two, one].map((id, index) => ({ agent_id: id, ...said(`message ${index}`) }));
    const { status, body } = await upload(lines, {}, '/v1/messages/append');
    expect([status, body]).toEqual([200, { appended: 3, repeated: 0, waiting: 0 }]);
    const { body: messages } = await api.call('GET', `/v1/agents/${one}/messages?order=asc`);
    expect(messages.map(({ content }: { content: string }) => content)).toEqual(['message 0', 'message 2']);
  });

  test('of wrong lines are refused by line and field, with nothing stored', async () => {
    const lines = [
      { agent_id, ...said('a') },
      { agent_id },
      { agent_id: `agent-${UNKNOWN_UUID}`, ...said('b') },
    ];
    const url = '/v1/messages/append';
    expect((await refused(lines, {}, url)).errors).toEqual([
      { path: '/lines/2/messages', message: 'is missing' },
    ]);
    expect((await refused([lines[0], lines[2]], {}, url)).errors[0].path).toBe('/lines/2/agent_id');
    expect((await refused('', {}, url)).errors).toEqual([{ path: '/lines', message: 'must hold an item' }]);
  });
});
