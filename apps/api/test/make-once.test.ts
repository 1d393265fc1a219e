import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createAgent, openApi, type Answer, type TestApi } from './api.ts';
import { operationsOf, type OpenApiDocument } from './document.ts';
import { createReview } from './reviews.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

interface Create {
  readonly url: string;
  /** Undefined: it has none. */
  readonly body: unknown;
  /** The same request with another body. */
  readonly other?: unknown;
  /** Content type; `form`: a file in a form. */
  readonly type?: string;
}

let forms = 0;
/** A form with an agent file. Its boundary is its own, so that the bytes of a repeated form differ. */
function formOf(file: object): { readonly text: string; readonly type: string } {
  const boundary = `part-${++forms}`;
  const head = 'content-disposition: form-data; name="file"; filename="a.af"';
  return {
    text: `--${boundary}\r\n${head}\r\n\r\n${JSON.stringify(file)}\r\n--${boundary}--\r\n`,
    type: `multipart/form-data; boundary=${boundary}`,
  };
}

/** Requests that change something that is there. */
async function actsOf(scheduleUrl: string): Promise<Readonly<Record<string, Create>>> {
  const [held, inForce] = [await createReview(api, CHANGES), await createReview(api, CHANGES)];
  await api.call('POST', `${inForce.url}/accept`, {});
  const other = await createAgent(api);
  const { body: batch } = await api.call('POST', '/v1/batches', {
    requests: [{ agent_id: other, input: 'Go.' }],
  });
  const before = '2026-11-02T10:00:00Z';
  return {
    acceptHeldChanges: { url: `${held.url}/accept`, body: {}, other: { label: 'other' } },
    rejectHeldChanges: { url: `${held.url}/reject`, body: {}, other: { label: 'other' } },
    revertBatch: { url: `/v1/batches/${inForce.job_id}/revert`, body: {}, other: { force: true } },
    rewindCursor: { url: `/v1/agents/${agent_id}/cursors/nightly/rewind`, body: {}, other: { before } },
    pauseBatch: { url: `/v1/batches/${batch.id}/pause`, body: undefined },
    resumeBatch: { url: `/v1/batches/${batch.id}/resume`, body: undefined },
    pauseSchedule: { url: `${scheduleUrl}/pause`, body: {}, other: { reason: 'Wrong prices.' } },
    resumeSchedule: { url: `${scheduleUrl}/resume`, body: undefined },
  };
}
const CHANGES = [{ before: 'one', after: 'two' }];

let agent_id: string;
let creates: Readonly<Record<string, Create>>;
let number = 0;
beforeEach(async () => {
  number++;
  agent_id = await createAgent(api);
  const model = 'anthropic/claude-haiku-4-5';
  const tool = { source_code: 'def rethink_memory():\n    pass', return_char_limit: 9_000 };
  const schedule = {
    name: `nightly ${number}`,
    cron: '0 2 * * *',
    time_zone: 'Europe/Berlin',
    body: { requests: [{ agent_id, input: 'Go.' }] },
  };
  const { body: made } = await api.call('POST', '/v1/schedules', { ...schedule, name: `by hand ${number}` });
  const messages = [{ role: 'user', content: 'Hi.' }];
  const item = { agent_id, messages };
  const scheduleUrl = `/v1/schedules/${made.id}`;
  const agentOf = (name: string) => ({ id: 'agent-0', name, llm_config: { handle: model } });
  creates = {
    createAgent: { url: '/v1/agents', body: { model, name: 'Ann' }, other: { model, name: 'Bob' } },
    createBlock: { url: '/v1/blocks', body: { label: 'notes' }, other: { label: 'other' } },
    createTool: { url: '/v1/tools', body: tool, other: { ...tool, return_char_limit: 8_000 } },
    createSchedule: { url: '/v1/schedules', body: schedule, other: { ...schedule, jitter_s: 1 } },
    runSchedule: { url: `${scheduleUrl}/run-now`, body: undefined },
    appendMessages: {
      url: `/v1/agents/${agent_id}/messages/append`,
      body: { messages },
      other: { messages: [...messages, ...messages] },
    },
    appendMessagesOfAgents: {
      url: '/v1/messages/append',
      body: { items: [item] },
      other: { items: [item, item] },
    },
    'appendMessagesOfAgents by lines': {
      url: '/v1/messages/append',
      body: `${JSON.stringify(item)}\n`,
      other: `${JSON.stringify(item)}\n${JSON.stringify(item)}\n`,
      type: 'application/jsonl',
    },
    importAgents: {
      url: '/v1/agents/import',
      body: { agents: [agentOf('Ann')] },
      other: { agents: [agentOf('Bob')] },
      type: 'form',
    },
    'importAgents by lines': {
      url: '/v1/agents/import',
      body: `${JSON.stringify({ model, name: 'Ann' })}\n`,
      other: `${JSON.stringify({ model, name: 'Bob' })}\n`,
      type: 'application/jsonl',
    },
    ...(await actsOf(scheduleUrl)),
  };
});

const send = (name: string, key: string | undefined, part: 'body' | 'other' = 'body'): Promise<Answer> => {
  const { url, type: given, ...bodies } = creates[name]!;
  const form = given === 'form' ? formOf(bodies[part] as object) : null;
  const type = form?.type ?? given;
  return api.call('POST', url, form?.text ?? bodies[part], {
    ...(key === undefined ? {} : { 'idempotency-key': key }),
    ...(type === undefined ? {} : { 'content-type': type }),
  });
};

async function rowsOf(): Promise<Readonly<Record<string, number>>> {
  const { rows } = await api.database.pool.query<Record<string, number>>(
    `select (select count(*)::int from agent) as agents, (select count(*)::int from block) as blocks,
            (select count(*)::int from schedule) as schedules, (select count(*)::int from tick) as ticks,
            (select count(*)::int from batch) as batches, (select count(*)::int from message) as messages`,
  );
  return rows[0]!;
}

const NAMES = [
  ...['createAgent', 'createBlock', 'createTool', 'createSchedule', 'runSchedule'],
  ...['appendMessages', 'appendMessagesOfAgents', 'appendMessagesOfAgents by lines'],
  ...['importAgents', 'importAgents by lines'],
];
const ACTS = [
  ...['acceptHeldChanges', 'rejectHeldChanges', 'revertBatch', 'rewindCursor'],
  ...['pauseBatch', 'resumeBatch', 'pauseSchedule', 'resumeSchedule'],
];
/** Makes a row each time. A tool is a built-in one, the name of a schedule is unique, and a run of it is open. */
const REPEATABLE = NAMES.filter((name) => !['createTool', 'createSchedule', 'runSchedule'].includes(name));

describe.each([...NAMES, ...ACTS])('%s with an Idempotency-Key', (name) => {
  test('that is repeated makes one thing and answers it again, also at the same time', async () => {
    // The server takes few uploads at a time.
    const count = name.endsWith('lines') ? 2 : 8;
    const answers = await Promise.all(Array.from({ length: count }, () => send(name, `twins-${number}`)));
    const before = await rowsOf();
    answers.push(await send(name, `twins-${number}`));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1);
    expect(answers.filter(({ headers }) => headers['idempotent-replayed'] !== 'true')).toHaveLength(1);
    expect(await rowsOf()).toEqual(before);
  });

  test('of another body is a 422 that makes nothing', async () => {
    await send(name, `first-${number}`);
    const before = await rowsOf();
    // Without a body, the request of another operation is another request.
    const { url } = creates['createSchedule']!;
    const answer =
      creates[name]!.body === undefined
        ? await api.call('POST', url, creates['createSchedule']!.body, {
            'idempotency-key': `first-${number}`,
          })
        : await send(name, `first-${number}`, 'other');
    expect([answer.status, answer.body.code]).toEqual([422, 'idempotency_mismatch']);
    expect(await rowsOf()).toEqual(before);
  });
});

test('a key of a batch is not for another thing, nor the other way round', async () => {
  const batch = (key: string) =>
    api.call('POST', '/v1/batches', { requests: [{ agent_id, input: 'Go.' }] }, { 'idempotency-key': key });
  expect((await batch('of-a-batch')).status).toBe(200);
  expect((await send('createBlock', 'of-a-batch')).body.code).toBe('idempotency_mismatch');
  expect((await send('createBlock', 'of-a-block')).status).toBe(200);
  expect((await batch('of-a-block')).body.code).toBe('idempotency_mismatch');
});

test.each(REPEATABLE)('%s makes another after a day under its key, and without a key', async (name) => {
  await send(name, `old-${number}`);
  const first = await rowsOf();
  await api.database.pool.query(`update idempotency_key set created_at = created_at - interval '25 hours'`);
  const second = await send(name, `old-${number}`);
  expect([second.status, second.headers['idempotent-replayed']]).toEqual([200, undefined]);
  expect(await rowsOf()).not.toEqual(first);
  const third = await rowsOf();
  await send(name, undefined);
  expect(await rowsOf()).not.toEqual(third);
});

test.each([
  ['pauseBatch', 'resumeBatch'],
  ['resumeBatch', 'pauseBatch'],
  ['pauseSchedule', 'resumeSchedule'],
  ['resumeSchedule', 'pauseSchedule'],
])('a repeated %s does not undo the %s of another', async (name, other) => {
  await send(other, undefined);
  const { body: first } = await send(name, `act-${number}`);
  const { body: between } = await send(other, undefined);
  expect(between.state).not.toBe(first.state);
  expect((await send(name, `act-${number}`)).body.state).toBe(between.state);
});

test('a repeated rewind does not undo a later one', async () => {
  await send('appendMessages', undefined);
  const { body: first } = await send('rewindCursor', `rewind-${number}`);
  expect(first).toMatchObject({ position: 0, new_messages: 1 });
  const { url } = creates['rewindCursor']!;
  const { body: second } = await api.call('POST', url, {
    before: new Date(Date.now() + 60_000).toISOString(),
  });
  expect(second).toMatchObject({ new_messages: 0 });
  expect((await send('rewindCursor', `rewind-${number}`)).body).toEqual(first);
  expect((await api.call('GET', `/v1/agents/${agent_id}/cursors`)).body).toEqual([second]);
});

test.each(['accept', 'reject'])(
  'a dry run of a %s leaves its key free, and looks each time',
  async (verb) => {
    const name = `${verb}HeldChanges`;
    const { url } = creates[name]!;
    const headers = { 'idempotency-key': `dry-${number}` };
    const dry = await api.call('POST', url, { dry_run: true }, headers);
    const { body: acted } = await send(name, `dry-${number}`);
    expect(dry.body).toEqual(acted);
    const { body: left } = await api.call('POST', url, { dry_run: true }, headers);
    expect(left[`${verb}ed`]).toBe(0);
  },
);

test('a strict import is another request than the same without', async () => {
  const { url, body } = creates['importAgents by lines']!;
  const headers = { 'idempotency-key': `strict-${number}`, 'content-type': 'application/jsonl' };
  expect((await api.call('POST', url, body, headers)).status).toBe(200);
  const strict = await api.call('POST', `${url}?strict=true`, body, headers);
  expect([strict.status, strict.body.code]).toEqual([422, 'idempotency_mismatch']);
});

test('a refused request leaves its key free', async () => {
  const headers = { 'idempotency-key': `free-${number}` };
  const refused = await api.call('POST', '/v1/agents', { model: 'anthropic/unknown' }, headers);
  expect(refused.status).toBe(422);
  expect((await send('createAgent', `free-${number}`)).status).toBe(200);
});

test('the repeated answer shows what was made as it is now', async () => {
  const { body: made } = await send('createBlock', `now-${number}`);
  await api.call('PATCH', `/v1/blocks/${made.id}`, { value: 'new' });
  expect((await send('createBlock', `now-${number}`)).body).toMatchObject({ id: made.id, value: 'new' });
});

test('a key of a deleted thing is a 404 that says so', async () => {
  const { body: made } = await send('createBlock', `gone-${number}`);
  await api.call('DELETE', `/v1/blocks/${made.id}`);
  const again = await send('createBlock', `gone-${number}`);
  expect([again.status, again.body.detail]).toEqual([
    404,
    expect.stringMatching(/this Idempotency-Key has made was deleted: .*Send a new key/),
  ]);
});

test('the row of a key holds ids and counts, and no content', async () => {
  await api.call(
    'POST',
    '/v1/agents',
    { model: 'anthropic/claude-haiku-4-5', system: 'A secret.', secrets: { TOKEN: 'A secret.' } },
    { 'idempotency-key': `secret-${number}` },
  );
  const { rows } = await api.database.pool.query<{ row: string }>(
    `select to_jsonb(k)::text as row from idempotency_key k where key = $1`,
    [`key:secret-${number}`],
  );
  expect(rows).toHaveLength(1);
  expect(rows[0]!.row).not.toContain('secret.');
});

test('every POST that must not come twice documents the header', () => {
  const document = api.app.swagger() as unknown as OpenApiDocument;
  const documented = operationsOf(document)
    .filter(({ parameters = [] }) => parameters.some(({ name }) => name === 'idempotency-key'))
    .map(({ operationId }) => operationId);
  const tested = [...NAMES, ...ACTS].filter((name) => !name.includes(' '));
  const testedElsewhere = ['createBatch', 'retryBatch', 'createMcpServer', 'runAgentTool'];
  expect(documented.sort()).toEqual([...tested, ...testedElsewhere].sort());
});
