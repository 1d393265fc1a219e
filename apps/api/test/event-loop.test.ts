import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { longestHoldMsOf } from '../../../test/cpu-time.ts';
import { API_KEY, createAgent, openApi, type TestApi } from './api.ts';

/** Longest time that a request may hold the event loop. Unit: milliseconds. */
const HOLD_MS_MAX = 200;

let api: TestApi;
let address: string;
let agent_id: string;
beforeAll(async () => {
  api = await openApi();
  address = await api.app.listen({ host: '127.0.0.1', port: 0 });
  agent_id = await createAgent(api);
});
afterAll(() => api.close());

/** A legal batch body: each request has 1.7 kB in 20 parts, so parsing takes as long as reading. */
function bodyOf(requests: number): Buffer {
  const content = Array.from({ length: 20 }, () => ({ type: 'text', text: 'x'.repeat(50) }));
  const one = JSON.stringify({ agent_id, messages: [{ role: 'user', content }] });
  return Buffer.from(`{"requests":[${Array.from({ length: requests }, () => one).join(',')}]}`);
}

/** Sends concurrent bodies from a thread, so that the client's work is not measured. Returns the statuses. */
const CLIENT = `
  const { parentPort, workerData: { url, headers, body, times } } = require('node:worker_threads');
  const { request } = require('node:http');
  const send = () => new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', headers });
    sent.on('error', reject).on('response', (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode));
    });
    sent.end(body);
  });
  Promise.all(Array.from({ length: times }, send)).then((statuses) => parentPort.postMessage(statuses));`;

/** Measures how long the event loop was held while bodies were answered. Returns milliseconds and statuses. */
async function holdOf(path: string, body: Buffer, times = 1) {
  const headers = {
    authorization: `Bearer ${API_KEY}`,
    'content-type': 'application/json',
    'content-length': body.length,
  };
  const workerData = { url: new URL(path, address).href, headers, body, times };
  const client = new Worker(CLIENT, { eval: true, workerData });
  let statuses: unknown;
  const held_ms = await longestHoldMsOf(async () => {
    [statuses] = await once(client, 'message');
  });
  return { held_ms, statuses };
}

test('a large estimate holds the event loop for at most 200 ms', async () => {
  const body = bodyOf(20_000);
  const { held_ms, statuses } = await holdOf('/v1/batches/estimate', body);
  expect(statuses).toEqual([200]);
  expect(held_ms).toBeLessThan(HOLD_MS_MAX);
});

test('20 concurrent bodies of 6.4 MB hold the event loop for at most 200 ms', async () => {
  const { held_ms, statuses } = await holdOf('/v1/batches/estimate', bodyOf(3_950), 20);
  expect(statuses).toEqual(Array.from({ length: 20 }, () => 200));
  expect(held_ms).toBeLessThan(HOLD_MS_MAX);
});

test('a create of 6.4 MB holds the event loop for at most 200 ms', async () => {
  const { held_ms, statuses } = await holdOf('/v1/batches', bodyOf(3_950));
  expect(statuses).toEqual([200]);
  expect(held_ms).toBeLessThan(HOLD_MS_MAX);
});

test('an endless template holds the event loop for at most 200 ms', async () => {
  const input = '{% for i in (1..100000) %}{% for j in (1..100000) %}{% endfor %}{% endfor %}';
  const body = { template: { agent_id, input }, inputs: [{ custom_id: 'a', variables: {} }] };
  const { held_ms, statuses } = await holdOf('/v1/batches/estimate', Buffer.from(JSON.stringify(body)));
  expect(statuses).toEqual([422]);
  expect(held_ms).toBeLessThan(HOLD_MS_MAX);
});
