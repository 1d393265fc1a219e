import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { json } from 'node:stream/consumers';
import Anthropic from '@anthropic-ai/sdk';
import { describe, expect, onTestFinished, test } from 'vitest';
import { all, plainHeaders, request, requests, running } from './support/running.ts';
import type { Running } from './support/running.ts';

const create = ({ client }: Running): Promise<Anthropic.Messages.Batches.MessageBatch> =>
  client.messages.batches.create({ requests: requests(2) });

const caught = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('a create with a lost answer', () => {
  test('is committed although the connection drops', async () => {
    const started = await running();
    started.simulator.control.addRule({
      op: 'create',
      match: { nth: 1 },
      action: { type: 'commitThenDrop' },
    });
    expect(await caught(create(started))).toBeInstanceOf(Anthropic.APIConnectionError);
    expect(started.simulator.control.batches()).toHaveLength(1);
    const [entry] = started.simulator.control.journal().entries;
    expect(entry).toMatchObject({
      op: 'create',
      outcome: 'dropped',
      status: null,
      committed: started.simulator.control.batches()[0]?.id,
    });
    expect((await started.client.messages.batches.list()).data).toHaveLength(1);
  });

  test('is committed long after the 504 of a proxy', async () => {
    const started = await running();
    const { control } = started.simulator;
    control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitLate', ms: 3_600_000 } });
    expect(await caught(create(started))).toMatchObject({ status: 504 });
    await control.advance(3_599_999);
    expect(control.batches()).toEqual([]);
    await control.advance(1);
    const [late] = (await started.client.messages.batches.list()).data;
    expect(Date.parse(late?.created_at ?? '')).toBeGreaterThan(Date.now() + 3_590_000);
    await control.advance(1_000);
    expect(control.ledger().totals.requests).toBe(2);
  });

  test('a provider with a wrong clock shows its own time in every answer', async () => {
    const { simulator, client } = await running({ settings: { timestamps: { skew_ms: 600_000 } } });
    const { data, response } = await client.messages.batches.create({ requests: requests(1) }).withResponse();
    const told = Date.parse(response.headers.get('date') ?? '');
    expect(Math.abs(told - Date.parse(data.created_at))).toBeLessThanOrEqual(1_000);
    expect(told).toBeGreaterThan(simulator.control.now() + 590_000);
  });

  test('creates three batches through a client that retries', async () => {
    const { simulator, client } = await running();
    simulator.control.addRule({ op: 'create', match: { times: 2 }, action: { type: 'commitThenDrop' } });
    await client.withOptions({ maxRetries: 2 }).messages.batches.create({ requests: requests(1) });
    expect(simulator.control.batches()).toHaveLength(3);
    expect(simulator.control.journal().entries.map(({ retry_count }) => retry_count)).toEqual([0, 1, 2]);
    await simulator.control.advance(1000);
    expect(simulator.control.ledger().repeated).toEqual({ content_hashes: 1, logical_keys: 1 });
    expect(simulator.control.ledger().repeats[0]).toMatchObject({ times: 3 });
  });

  test.each([
    ['commitThenStatus', { type: 'commitThenStatus', code: 503 }, Anthropic.APIError],
    ['commitThenTruncatedJson', { type: 'commitThenTruncatedJson' }, SyntaxError],
    ['commitThenPartialBody', { type: 'commitThenPartialBody', bytes: 30 }, TypeError],
  ] as const)('%s', async (_name, action, errorClass) => {
    const started = await running();
    started.simulator.control.addRule({ op: 'create', action });
    expect(await caught(create(started))).toBeInstanceOf(errorClass);
    expect(started.simulator.control.batches()).toHaveLength(1);
  });

  test('may come back as HTML with status 200, or without an id', async () => {
    const started = await running();
    started.simulator.control.addRule({ id: 'r', op: 'create', action: { type: 'commitThenHtml200' } });
    expect(typeof (await create(started))).toBe('string');
    started.simulator.control.addRule({ id: 'r', op: 'create', action: { type: 'commitThenNoId' } });
    expect(await create(started)).not.toHaveProperty('id');
    expect(started.simulator.control.batches()).toHaveLength(2);
  });

  test('hangs until the client disconnects', async () => {
    const started = await running();
    started.simulator.control.addRule({ op: 'create', action: { type: 'commitThenHang' } });
    const giveUp = new AbortController();
    const created = caught(
      started.client.messages.batches.create({ requests: requests(1) }, { signal: giveUp.signal }),
    );
    const { control } = started.simulator;
    await expect.poll(() => control.journal().entries[0]).toMatchObject({ outcome: 'hung' });
    expect(control.batches()).toHaveLength(1);
    giveUp.abort();
    expect(await created).toBeInstanceOf(Anthropic.APIUserAbortError);
  });

  test('is not committed when the connection drops before', async () => {
    const started = await running();
    started.simulator.control.addRule({ op: 'create', action: { type: 'dropBefore' } });
    expect(await caught(create(started))).toBeInstanceOf(Anthropic.APIConnectionError);
    expect(started.simulator.control.batches()).toEqual([]);
  });

  test('a refusal is sent although a rule would hide a commit', async () => {
    const { simulator, client } = await running();
    simulator.control.addRule({ op: 'create', action: { type: 'commitThenDrop' } });
    const error = await caught(client.messages.batches.create({ requests: [request('not a valid id')] }));
    expect(error).toBeInstanceOf(Anthropic.BadRequestError);
  });
});

describe('late and held answers', () => {
  test('a held request waits for its rule to be deleted', async () => {
    const started = await running();
    started.simulator.control.addRule({
      id: 'gate',
      op: 'create',
      action: { type: 'hold', at: 'committed' },
    });
    const creating = create(started);
    await expect.poll(() => started.simulator.control.batches()).toHaveLength(1);
    expect(started.simulator.control.journal().entries[0]?.outcome).toBe('pending');
    started.simulator.control.removeRule('gate');
    expect((await creating).id).toBe(started.simulator.control.batches()[0]?.id);
  });

  test('headers and bodies can be delayed', async () => {
    const { simulator, client } = await running();
    simulator.control.addRule({
      op: 'list',
      actions: [
        { type: 'delayHeaders', ms: 40 },
        { type: 'delayBody', ms: 40 },
      ],
    });
    const startedAt = performance.now();
    await client.messages.batches.list();
    expect(performance.now() - startedAt).toBeGreaterThan(75);
  });

  test('an idle connection may be closed after a reply', async () => {
    const { simulator } = await running();
    // One connection at a time, reused unless the server closes it.
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => {
      agent.destroy();
    });
    const listOver = async (): Promise<{ readonly status: number; readonly socket: Socket }> => {
      const asked = get(`${simulator.apiUrl}/v1/messages/batches`, { agent, headers: plainHeaders });
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      await answer.toArray();
      return { status: answer.statusCode!, socket: asked.socket! };
    };
    const first = await listOver();
    simulator.control.addRule({
      id: 'close',
      op: 'list',
      match: { times: 1 },
      action: { type: 'closeIdle' },
    });
    const second = await listOver();
    expect(second.socket).toBe(first.socket);
    await expect.poll(() => second.socket.destroyed).toBe(true);
    const third = await listOver();
    expect(third.socket).not.toBe(second.socket);
    expect([first, second, third].map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(simulator.control.journal().entries.map(({ rule_id }) => rule_id)).toEqual([null, 'close', null]);
  });
});

describe('a provider without read-your-writes', () => {
  test('does not find a new batch for a while', async () => {
    const started = await running();
    started.simulator.control.addRule({ op: 'retrieve', action: { type: 'notFoundFor', ms: 500 } });
    const { id } = await create(started);
    await expect(started.client.messages.batches.retrieve(id)).rejects.toBeInstanceOf(
      Anthropic.NotFoundError,
    );
    await started.simulator.control.advance(500);
    expect((await started.client.messages.batches.retrieve(id)).id).toBe(id);
  });

  test('lists a batch late, or not at all', async () => {
    const started = await running();
    started.simulator.control.addRule({ id: 'r', op: 'list', action: { type: 'lag', ms: 500 } });
    const first = await create(started);
    expect((await started.client.messages.batches.list()).data).toEqual([]);
    await started.simulator.control.advance(500);
    expect((await started.client.messages.batches.list()).data).toHaveLength(1);
    const second = await create(started);
    started.simulator.control.addRule({ id: 'r', op: 'list', action: { type: 'omit', batch_id: first.id } });
    expect((await started.client.messages.batches.list()).data.map(({ id }) => id)).toEqual([second.id]);
    started.simulator.control.addRule({ id: 'r', op: 'list', action: { type: 'omit' } });
    expect((await started.client.messages.batches.list()).data.map(({ id }) => id)).toEqual([first.id]);
  });

  test('shows an ended batch in progress once more', async () => {
    const started = await running();
    const { id } = await create(started);
    await started.simulator.control.advance(1000);
    started.simulator.control.addRule({ op: 'retrieve', match: { nth: 2 }, action: { type: 'regress' } });
    const statuses: string[] = [];
    for (let i = 0; i < 3; i++)
      statuses.push((await started.client.messages.batches.retrieve(id)).processing_status);
    expect(statuses).toEqual(['ended', 'in_progress', 'ended']);
  });

  test('lists pages that are small, shifted, with foreign batches, or with a wrong has_more', async () => {
    const started = await running();
    for (let i = 0; i < 5; i++) await create(started);
    const { control } = started.simulator;
    control.addRule({ id: 'r', op: 'list', action: { type: 'smallPages', size: 2 } });
    expect(await all(started.client.messages.batches.list())).toHaveLength(5);
    expect((await started.client.messages.batches.list()).data).toHaveLength(2);
    control.addRule({ id: 'r', op: 'list', action: { type: 'pageShift', by: 1 } });
    expect((await started.client.messages.batches.list()).data).toHaveLength(4);
    control.addRule({ id: 'r', op: 'list', action: { type: 'foreignBatches', count: 2, requests: 2 } });
    const page = await started.client.messages.batches.list();
    expect(page.data).toHaveLength(7);
    expect(page.data[0]?.request_counts.processing).toBe(2);
    control.addRule({ id: 'r', op: 'list', action: { type: 'hasMoreLies', says: false } });
    expect(await all(started.client.messages.batches.list({ limit: 2 }))).toHaveLength(2);
  });

  test('shows counts that change early, change late, or do not add up', async () => {
    const started = await running();
    const { control } = started.simulator;
    const { id } = await started.client.messages.batches.create({ requests: requests(10) });
    control.configure({ counts: 'progressive' });
    await control.advance(500);
    expect((await started.client.messages.batches.retrieve(id)).request_counts).toMatchObject({
      processing: 5,
      succeeded: 5,
    });
    control.configure({ counts: 'lagging', counts_lag_ms: 1000 });
    await control.advance(500);
    expect(await started.client.messages.batches.retrieve(id)).toMatchObject({
      processing_status: 'ended',
      request_counts: { processing: 10 },
    });
    control.configure({ counts: 'at_end' });
    control.addRule({ op: 'retrieve', action: { type: 'countsMismatch', by: 3 } });
    expect((await started.client.messages.batches.retrieve(id)).request_counts.succeeded).toBe(13);
  });
});

describe('limits', () => {
  test('too many HTTP requests per minute are refused with the wait', async () => {
    const { simulator, client } = await running({ settings: { limits: { requests_per_minute: 2 } } });
    await client.messages.batches.list();
    await client.messages.batches.list();
    const error = await caught(client.messages.batches.list());
    expect(error).toBeInstanceOf(Anthropic.RateLimitError);
    const { headers } = error as { headers: Headers };
    expect(headers.get('retry-after')).toBe('30');
    expect(headers.get('anthropic-ratelimit-requests-limit')).toBe('2');
    await simulator.control.advance(30_000);
    await client.messages.batches.list();
  });

  test('too many message requests in processing are refused until some are done', async () => {
    const started = await running({ settings: { limits: { queued_requests: 3 } } });
    await create(started);
    expect(await caught(create(started))).toBeInstanceOf(Anthropic.RateLimitError);
    await started.simulator.control.advance(1000);
    await create(started);
  });
});

describe('rules', () => {
  test('fire on the nth request, on every nth, a number of times, or at random', async () => {
    const { simulator, client } = await running();
    const statuses = async (match: object): Promise<string> => {
      simulator.control.clearRules();
      simulator.control.addRule({ op: 'list', match, action: { type: 'status', code: 500 } });
      let shown = '';
      for (let i = 0; i < 6; i++)
        shown += (await caught(Promise.resolve(client.messages.batches.list()))) ? 'x' : '.';
      return shown;
    };
    expect(await statuses({ nth: 2 })).toBe('.x....');
    expect(await statuses({ nth: [1, 4] })).toBe('x..x..');
    expect(await statuses({ every: 3 })).toBe('..x..x');
    expect(await statuses({ times: 2 })).toBe('xx....');
    expect(await statuses({ probability: 0 })).toBe('......');
    expect(await statuses({ retry_count: 1 })).toBe('......');
    expect(simulator.control.rules()).toMatchObject([{ candidates: 0, fired: 0 }]);
  });

  test('are refused with their problem', async () => {
    const { simulator } = await running();
    expect(() => simulator.control.addRule({ op: 'list' })).toThrow();
    expect(() => simulator.control.addRule({ op: 'list', action: { type: 'nonsense' } } as never)).toThrow();
    expect(() =>
      simulator.control.addRule({ op: 'request', match: { custom_id: '(' }, outcome: { type: 'succeed' } }),
    ).toThrow();
  });
});

test('an invalid URL is answered with a 404 error envelope', async () => {
  const { simulator } = await running();
  const { port } = new URL(simulator.apiUrl);
  const asking = get({ port, host: '127.0.0.1', path: '//', headers: plainHeaders });
  const [response] = (await once(asking, 'response')) as [IncomingMessage];
  expect(response.statusCode).toBe(404);
  expect(await json(response)).toMatchObject({ type: 'error', error: { type: 'not_found_error' } });
});
