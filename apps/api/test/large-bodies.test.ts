import { SHIPPED_PRICES } from '@nightshift/agent-core';
import { NO_SECRETS_KEYS } from '@nightshift/intake';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createBudget, createHeldBytes, giveBackOfThread } from '../src/body-budget.ts';
import { BODY_BYTES_TOGETHER_MAX, SMALL_BODY_BYTES_MAX } from '../src/json-body.ts';
import type { HandedOver } from '../src/large-bodies/handed-over.ts';
import type { ThreadSettings } from '../src/large-bodies/protocol.ts';
import { createLargeBodyThread } from '../src/large-bodies/start-thread.ts';
import { API_KEY, countRows, createAgent, openApi, type TestApi } from './api.ts';

let api: TestApi;
let agent_id: string;
beforeAll(async () => {
  api = await openApi();
  agent_id = await createAgent(api);
});
afterAll(() => api.close());

/** Blanks that make a body too large for the main thread. */
const PADDING = ' '.repeat(SMALL_BODY_BYTES_MAX);

describe('a large body has the same answer as a small body', () => {
  const request = (rest = '') => `{"agent_id":"${agent_id}","input":"Hello"${rest}}`;

  test.each([
    ['JSON that ends early', () => '{"requests":['],
    ['a key that changes a prototype', () => `{"requests":[{"__proto__":{"a":1}}]}`],
    [
      'a number that loses digits',
      () => `{"requests":[${request()},${request(',"max_output_tokens":9007199254740993')}]}`,
    ],
    ['nesting', () => `${'['.repeat(200)}${']'.repeat(200)}`],
    ['an unknown field', () => `{"requests":[${request(',"a/b~c":1')}]}`],
    ['a repeated name', () => `{"requests":[${request(',"custom_id":"a"')},${request(',"custom_id":"a"')}]}`],
    ['no request', () => '{"requests":[]}'],
    ['an unknown agent', () => `{"requests":[${request().replace(/"agent-\w{8}/, '"agent-00000000')}]}`],
  ])('when refused: %s', async (_, body) => {
    const before = await countRows(api);
    const [small, large] = await Promise.all(
      [body(), PADDING + body()].map((text) => api.call('POST', '/v1/batches', text)),
    );
    expect(small?.status).toBeGreaterThanOrEqual(400);
    const place = / at position \d+.*?(?=\. |$)/;
    const told = [small, large].map((answer) => ({
      status: answer?.status,
      code: answer?.body.code,
      detail: answer?.body.detail.replace(place, ''),
      errors: answer?.body.errors,
    }));
    expect(told[1]).toEqual(told[0]);
    expect(await countRows(api)).toEqual(before);
  });

  test('when it makes a batch: workers wake, and a repeated request returns the same batch', async () => {
    const body = `${PADDING}{"requests":[${request()}],"metadata":{"of":"a large body"}}`;
    const rung = api.signals.length;
    const create = () => api.call('POST', '/v1/batches', body, { 'idempotency-key': 'large' });
    const [first, second] = [await create(), await create()];
    expect([first.status, first.body.metadata, first.body.counts.total]).toEqual([
      200,
      { of: 'a large body' },
      1,
    ]);
    expect(first.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(api.signals.slice(rung)).toEqual([{ kind: 'compose', id: '*' }]);
    expect([second.body.id, second.headers['idempotent-replayed']]).toEqual([first.body.id, 'true']);
    const other = await api.call('POST', '/v1/batches', `${body} `, { 'idempotency-key': 'large' });
    expect([other.status, other.body.code]).toEqual([422, 'idempotency_mismatch']);
  });

  test('on a route without batches', async () => {
    const label = 'large';
    const answer = await api.call('POST', '/v1/blocks', `${PADDING}{"label":"${label}","value":""}`);
    expect([answer.status, answer.body.label]).toEqual([200, label]);
  });

  test('of unknown length', async () => {
    const body = `${PADDING}{"requests":[${request()}]}`;
    const address = await api.app.listen({ host: '127.0.0.1', port: 0 });
    const answer = await fetch(new URL('/v1/batches/estimate', address), {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      body: new Blob([body]).stream(),
      duplex: 'half',
    });
    expect([answer.status, await answer.json()]).toEqual([200, expect.objectContaining({ runs: 1 })]);
  });
});

describe('the thread of large bodies', () => {
  const settings = (): ThreadSettings => ({
    apiKey: API_KEY,
    model: 'simulator',
    prices: SHIPPED_PRICES,
    secretsKeys: NO_SECRETS_KEYS,
    toolsAllowPrivate: false,
    bodyBytesMax: BODY_BYTES_TOGETHER_MAX,
    heldBytes: createHeldBytes(),
    databaseUrl: api.database.url,
  });
  const EVENTS = { onRing: () => undefined, onLog: () => undefined, onExit: () => undefined };
  const handOver = (body: unknown): HandedOver => {
    const bytes = new TextEncoder().encode(JSON.stringify(body));
    return {
      method: 'POST',
      url: '/v1/batches/estimate',
      headers: {
        authorization: `Bearer ${API_KEY}`,
        'content-type': 'application/json',
        'content-length': String(bytes.length),
      },
      body: [bytes],
      request_id: 'request',
      arrived_ns: process.hrtime.bigint(),
      held_bytes: bytes.length,
    };
  };

  test('fails its current requests when it ends, and restarts for the next request', async () => {
    let exits = 0;
    const thread = createLargeBodyThread(settings(), { ...EVENTS, onExit: () => exits++ });
    const endless = '{% for i in (1..100000) %}{% for j in (1..100000) %}{% endfor %}{% endfor %}';
    const body = { template: { agent_id, input: endless }, inputs: [{ custom_id: 'a', variables: {} }] };
    const asked = expect(thread.answer(handOver(body))).rejects.toThrow('has ended');
    await thread.stop();
    await asked;
    expect(exits).toBe(1);
    const { status } = await thread.answer(handOver({ requests: [{ agent_id, input: 'Hello' }] }));
    expect(status).toBe(200);
    await thread.stop();
  });

  test('fails its requests with the reason if it cannot start', async () => {
    const thread = createLargeBodyThread({ ...settings(), apiKey: 1 as unknown as string }, EVENTS);
    await expect(thread.answer(handOver({}))).rejects.toThrow('argument must be of type string');
  });

  test("logs its errors through the main thread, with the request's id", async () => {
    const lines: string[] = [];
    const databaseUrl = 'postgres://user@127.0.0.1:1/none';
    const events = { ...EVENTS, onLog: (line: string) => lines.push(line) };
    const thread = createLargeBodyThread({ ...settings(), databaseUrl }, events);
    const { status } = await thread.answer(handOver({ requests: [{ agent_id, input: 'Hello' }] }));
    expect(status).toBe(503);
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { level: 50, msg: 'database_unreachable', request_id: 'request' },
    ]);
    await thread.stop();
  });

  test('shares the budget of the main thread', async () => {
    const shared = { ...settings(), bodyBytesMax: 1_000 };
    const thread = createLargeBodyThread(shared, EVENTS);
    const other = createBudget(1_000, shared.heldBytes)();
    expect(other.take(900)).toBe(true);
    const request = () => handOver({ requests: [{ agent_id, input: 'Hello' }] });
    const refused = await thread.answer(request());
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1']);
    other.giveBack();
    expect((await thread.answer(request())).status).toBe(200);
    await expect.poll(() => [...shared.heldBytes]).toEqual([0n, 0n, 0n]);
    await thread.stop();
  });

  test('returns only its own bytes when it ends', () => {
    const held = createHeldBytes();
    const main = createBudget(100, held)();
    expect(main.take(30)).toBe(true);
    const inThread = createBudget(100, held)(30);
    expect([inThread.take(80), main.take(1)]).toEqual([true, false]);
    giveBackOfThread(held);
    expect([...held]).toEqual([30n, 0n, 0n]);
    main.giveBack();
    expect([...held]).toEqual([0n, 0n, 0n]);
  });
});
