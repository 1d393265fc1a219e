import { randomBytes } from 'node:crypto';
import Fastify from 'fastify';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createStreams } from '../src/streams/sse.ts';
import { createAgent, openApi, type TestApi } from './api.ts';
import { listenOnFreePort, openStream, type ReceivedEvent, type TestStream } from './event-streams.ts';

let api: TestApi;
let origin = '';
beforeAll(async () => {
  api = await openApi();
  origin = await listenOnFreePort(api.app);
});
afterAll(() => api.close());

const list = (query = '') => api.call('GET', `/v1/events${query}`, undefined, { accept: 'application/json' });
const typesOf = (events: readonly { readonly type: string }[]) => events.map(({ type }) => type);

async function submit(rest: object = {}): Promise<string> {
  const agent_id = await createAgent(api);
  const { body } = await api.call('POST', '/v1/batches', { requests: [{ agent_id, input: 'Go.' }], ...rest });
  return body.id;
}

async function take(stream: TestStream, count: number): Promise<readonly ReceivedEvent[]> {
  const events: ReceivedEvent[] = [];
  while (events.length < count) events.push((await stream.next())!);
  return events;
}

describe('the events of all batches and schedules', () => {
  test('tell each change of a state once, in order, as a list and as a stream', async () => {
    const stream = await openStream(`${origin}/v1/events`);
    const job_id = await submit();
    await api.call('POST', `/v1/batches/${job_id}/pause`);
    await api.call('POST', `/v1/batches/${job_id}/pause`);
    await api.call('POST', `/v1/batches/${job_id}/resume`);
    await api.call('PATCH', `/v1/messages/batches/${job_id}/cancel`);
    const streamed = await take(stream, 4);
    stream.cut();
    expect(streamed.map(({ data }) => data)).toMatchObject([
      { type: 'batch.running', job_id, schedule_id: null },
      { type: 'batch.paused', job_id, data: { reason: 'Paused by request; resume it to continue.' } },
      { type: 'batch.running', job_id },
      { type: 'batch.cancelling', job_id },
    ]);
    const listed = (await list()).body.filter((event: { job_id: string }) => event.job_id === job_id);
    expect(listed).toEqual(streamed.map(({ data }) => data));
    expect(listed.map(({ id }: { id: string }) => id)).toEqual(streamed.map(({ id }) => id));
  });

  test('tell ticks', async () => {
    const agent_id = await createAgent(api);
    const { body: schedule } = await api.call('POST', '/v1/schedules', {
      name: 'nightly',
      cron: '0 3 * * *',
      time_zone: 'UTC',
      body: { requests: [{ agent_id, input: 'Go.' }] },
    });
    await api.call('POST', `/v1/schedules/${schedule.id}/run-now`);
    // Transactions of other databases of the server hold the latest events back for a moment.
    await expect
      .poll(async () => (await list()).body.at(-1))
      .toMatchObject({
        type: 'schedule.tick',
        schedule_id: schedule.id,
        data: { outcome: 'started', reason: null },
      });
    const events = (await list()).body;
    expect(events.at(-1).job_id).toBe(events.at(-2).job_id);
  });

  test('are paged', async () => {
    const all = (await list()).body;
    const first = await list('?limit=2');
    expect(first.headers['link']).toBe(`</v1/events?limit=2&after=${all[1].id}>; rel="next"`);
    const rest = await list(`?after=${all[1].id}`);
    expect([...first.body, ...rest.body]).toEqual(all);
    expect(rest.headers['link']).toBeUndefined();
  });

  test('wait for the commits of older transactions: a late commit comes before them, and is not missed', async () => {
    const before = (await list()).body.at(-1).id;
    const late = await api.database.pool.connect();
    try {
      await late.query('begin');
      await insertEvent(late, 'batch.paused');
      await insertEvent(api.database.pool, 'batch.running');
      const stream = await openStream(`${origin}/v1/events`, before);
      expect((await list(`?after=${before}`)).body).toEqual([]);
      await late.query('commit');
      expect((await take(stream, 2)).map(({ data }) => data.type)).toEqual(['batch.paused', 'batch.running']);
      stream.cut();
    } finally {
      late.release();
    }
    expect(typesOf((await list(`?after=${before}`)).body)).toEqual(['batch.paused', 'batch.running']);
  });

  test('go on where a cut stream ended, for many streams, from memory and from the table', async () => {
    const from = (await list()).body.at(-1).id;
    await Promise.all(Array.from({ length: 250 }, () => insertEvent(api.database.pool, 'batch.running')));
    const ids: string[] = [];
    for (let cut = 0; cut < 10; cut++) {
      const stream = await openStream(`${origin}/v1/events?after=${ids.at(-1) ?? from}`);
      ids.push(...(await take(stream, 20)).map(({ id }) => id));
      stream.cut();
    }
    const follower = await openStream(`${origin}/v1/events`, ids.at(-1));
    ids.push(...(await take(follower, 50)).map(({ id }) => id));
    await Promise.all(Array.from({ length: 150 }, () => insertEvent(api.database.pool, 'batch.paused')));
    ids.push(...(await take(follower, 150)).map(({ id }) => id));
    follower.cut();
    expect(ids).toEqual((await list(`?after=${from}&limit=1000`)).body.map(({ id }: { id: string }) => id));
    expect(new Set(ids).size).toBe(400);
  });

  test.each(['event-1', 'job-1', 'event-1-x', 'event-999999999999999999-1'])(
    'after %s are a 422',
    async (id) => {
      expect((await list(`?after=${id}`)).status).toBe(422);
      expect((await openStream(`${origin}/v1/events`, id)).status).toBe(422);
    },
  );

  async function insertEvent(client: pg.Pool | pg.PoolClient, type: string): Promise<void> {
    await client.query(
      `insert into event (project_id, type, batch_id, data) select id, $1, id, '{}' from project limit 1`,
      [type],
    );
  }
});

test('a client that does not read is not written for: its events wait in their source', async () => {
  const app = Fastify();
  const streams = createStreams(1);
  const data = { noise: randomBytes(32_768).toString('base64') };
  let made = 0;
  app.get('/', (_request, reply) =>
    streams.send(reply, async function* endless(waker) {
      while (!waker.hasEnded()) yield { id: `${made++}`, event: 'noise', data };
    }),
  );
  const stream = await openStream(await listenOnFreePort(app));
  stream.response.pause();
  let before = -1;
  while (before !== made) {
    before = made;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  // What the buffers of both sockets hold.
  expect(made).toBeLessThan(500);
  stream.cut();
  await app.close();
});
