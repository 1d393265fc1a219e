import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { requests, running } from './support/running.ts';

async function call(
  base: string,
  method: string,
  path: string,
  body?: object,
): Promise<{ status: number; body: never }> {
  const response = await fetch(base + path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as never };
}

test('the control port drives a batch to its end and shows its true state', async () => {
  const { simulator, client } = await running();
  const control = (method: string, path: string, body?: object): ReturnType<typeof call> =>
    call(simulator.controlUrl, method, path, body);
  expect(await control('GET', '/healthz')).toMatchObject({ status: 200, body: { status: 'ok', batches: 0 } });
  const { id } = await client.messages.batches.create({ requests: requests(3) });
  expect(await control('GET', `/batches/${id}?items=1`)).toMatchObject({
    body: { status: 'in_progress', count: 3, items: [{ custom_id: 'r-0', result: null }, {}, {}] },
  });
  await control('POST', '/clock/advance', { ms: 1000 });
  expect(await control('GET', '/batches')).toMatchObject({ body: { batches: [{ id, status: 'ended' }] } });
  const { body } = (await control('GET', `/batches/${id}?items=1`)) as {
    body: { items: { custom_id: string; result: string }[] };
  };
  expect(body.items.map((item) => `${item.custom_id} ${item.result}`).sort()).toEqual([
    'r-0 succeeded',
    'r-1 succeeded',
    'r-2 succeeded',
  ]);
  expect(await control('GET', '/ledger')).toMatchObject({ body: { totals: { requests: 3 } } });
  expect(await control('GET', '/ledger?logical_key=r-1')).toMatchObject({ body: { billed: { times: 1 } } });
  expect(await control('POST', `/batches/${id}/archive`)).toMatchObject({
    body: { archived_at_ms: simulator.control.now() },
  });
  expect(await control('GET', '/journal?since=0&op=create')).toMatchObject({
    body: { entries: [{ op: 'create', status: 200, committed: id }], last_seq: 1 },
  });
  expect(await control('POST', '/reset', { seed: 7 })).toMatchObject({ status: 200 });
  expect(await control('GET', '/batches')).toMatchObject({ body: { batches: [] } });
});

test('a batch can be ended, expired and stalled by command', async () => {
  const { simulator, client } = await running();
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) ids.push((await client.messages.batches.create({ requests: requests(4) })).id);
  const command = (at: number, verb: string): ReturnType<typeof call> =>
    call(simulator.controlUrl, 'POST', `/batches/${ids[at] ?? ''}/${verb}`);
  expect(await command(0, 'end')).toMatchObject({ body: { status: 'ended', counts: { succeeded: 4 } } });
  expect(await command(1, 'expire')).toMatchObject({ body: { status: 'ended', counts: { expired: 4 } } });
  expect(await command(2, 'stall')).toMatchObject({ body: { status: 'in_progress' } });
  await simulator.control.advance(90_000_000);
  expect((await client.messages.batches.retrieve(ids[2] ?? '')).processing_status).toBe('in_progress');
});

test('a batch that has not ended cannot be archived and continues', async () => {
  const { simulator, client } = await running();
  const { id } = await client.messages.batches.create({ requests: requests(2) });
  expect(await call(simulator.controlUrl, 'POST', `/batches/${id}/archive`)).toMatchObject({
    status: 400,
    body: { error: { message: `batch ${id} has not ended` } },
  });
  await simulator.control.advance(1000);
  expect(await client.messages.batches.retrieve(id)).toMatchObject({
    processing_status: 'ended',
    archived_at: null,
    request_counts: { succeeded: 2 },
  });
});

test('rules are added and removed over the control port', async () => {
  const { simulator, client } = await running();
  const rule = { op: 'list', action: { type: 'status', code: 503 } };
  expect(await call(simulator.controlUrl, 'POST', '/rules', rule)).toEqual({
    status: 200,
    body: { id: 'rule-1' },
  });
  await expect(client.messages.batches.list()).rejects.toThrow('503');
  expect(await call(simulator.controlUrl, 'GET', '/rules')).toMatchObject({
    body: { rules: [{ id: 'rule-1', fired: 1 }] },
  });
  expect(await call(simulator.controlUrl, 'DELETE', '/rules/rule-1')).toMatchObject({ status: 200 });
  await client.messages.batches.list();
});

test('a character split over two chunks is read correctly', async () => {
  const { simulator } = await running();
  const text = Buffer.from('{"id":"é","op":"list","action":{"type":"dropBefore"}}');
  const sending = request(`${simulator.controlUrl}/rules`, { method: 'POST' });
  const half = text.indexOf('é') + 1;
  sending.write(text.subarray(0, half));
  // The first chunk is read before the second is sent.
  await call(simulator.controlUrl, 'GET', '/healthz');
  await call(simulator.controlUrl, 'GET', '/healthz');
  sending.end(text.subarray(half));
  const [response] = (await once(sending, 'response')) as [IncomingMessage];
  expect(await json(response)).toEqual({ id: 'é' });
});

test.each(['delayBody', 'closeIdle', 'commitThenPartialBody', 'commitThenTruncatedJson', 'commitThenNoId'])(
  'a rule that would %s of results is refused, as they are a stream',
  async (type) => {
    const { simulator } = await running();
    const rule = { op: 'results', action: { type, ...(type === 'delayBody' ? { ms: 1 } : {}) } };
    expect(await call(simulator.controlUrl, 'POST', '/rules', rule)).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringMatching(/results are a stream/) } },
    });
    await call(simulator.controlUrl, 'POST', '/rules', { ...rule, op: 'list' });
    expect(simulator.control.rules()).toHaveLength(1);
  },
);

test.each([
  ['POST', '/rules', { op: 'list', action: { type: 'nonsense' } }, 400],
  ['POST', '/rules', { op: 'request', outcome: { type: 'script', script: 'none' } }, 400],
  ['POST', '/config', { latency: 'soon' }, 400],
  ['POST', '/config', { unknown: 1 }, 400],
  ['POST', '/config', { outcomes: { errored: 2 } }, 400],
  ['POST', '/clock/advance', { ms: -1 }, 400],
  ['POST', '/clock/set', { at: '2001-01-01T00:00:00Z' }, 400],
  ['POST', '/clock/mode', { mode: 'warp' }, 400],
  ['DELETE', '/rules/none', undefined, 404],
  ['GET', '/batches/none', undefined, 404],
  ['GET', '/nothing', undefined, 404],
  ['GET', '/journal?since=x', undefined, 400],
])('%s %s %j is answered with %i and the problem', async (method, path, body, status) => {
  const { simulator } = await running();
  const answered = await call(simulator.controlUrl, method, path, body);
  expect(answered.status).toBe(status);
  expect(answered.body).toMatchObject({ error: { message: expect.stringMatching(/.+/) } });
});

test('a change of settings keeps the other settings', async () => {
  const { simulator } = await running();
  await call(simulator.controlUrl, 'POST', '/config', { latency: 'fixed:5', outcomes: { errored: 0.5 } });
  expect(simulator.control.settings()).toMatchObject({
    latency: { kind: 'fixed', ms: 5 },
    outcomes: { errored: 0.5, expired: 0, errored_type: 'api_error' },
    max_requests: 100_000,
  });
});

test('a virtual clock can be started', async () => {
  const { simulator, client } = await running();
  const { id } = await client.messages.batches.create({ requests: requests(1) });
  await call(simulator.controlUrl, 'POST', '/clock/mode', { mode: 'scaled:1000' });
  await expect.poll(async () => (await client.messages.batches.retrieve(id)).processing_status).toBe('ended');
});
