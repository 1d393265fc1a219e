import { connect, type DB } from '@nightshift/db';
import { createPool } from '@nightshift/services';
import { Kysely, PostgresDialect } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { buildServer } from '../src/index.ts';
import { API_KEY, createAgent, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';
import { listenOnFreePort, openStream } from './event-streams.ts';

let api: TestApi;
let origin = '';
beforeAll(async () => {
  api = await openApi();
  origin = await listenOnFreePort(api.app);
});
afterAll(() => api.close());

let jobId = '';
beforeEach(async () => {
  jobId = await submit(api, 20);
});

async function submit(to: TestApi, runs: number, rest: object = {}): Promise<string> {
  const agent_id = await createAgent(to);
  const { status, body } = await to.call('POST', '/v1/batches', {
    template: { agent_id, input: '{{ n }}' },
    inputs: Array.from({ length: runs }, (_, n) => ({ custom_id: `${n}`, variables: { n } })),
    ...rest,
  });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.id;
}

const uuidOf = (id: string): string => id.slice(4);

/** Counts one run of a batch as completed, as a commit of a worker does. */
async function endRun(to: TestApi, job: string, slot = 0): Promise<void> {
  await to.database.pool.query(
    `with t as (
       insert into batch_tally as t (batch_id, slot, project_id, version, completed, last_ended_at)
       select id, $2, project_id, 1, 1, app_now() from batch where id = $1
       on conflict (batch_id, slot) do update set version = t.version + 1, completed = t.completed + 1, last_ended_at = app_now()
       returning *)
     insert into ended_runs (batch_id, slot, version, project_id, run_ids)
     select batch_id, slot, version, project_id, array[batch_id] from t`,
    [uuidOf(job), slot],
  );
}

const end = (to: TestApi, job: string) =>
  to.database.pool.query(
    `update batch set state = 'completed', completed_at = app_now(), next_due_at = null, updated_at = app_now() where id = $1`,
    [uuidOf(job)],
  );

const progressOf = async (job: string, headers: Record<string, string> = {}) =>
  api.call('GET', `/v1/batches/${job}/progress`, undefined, headers);

describe('the progress of a batch', () => {
  test('is in the batch, and alone; lists do without it', async () => {
    const alone = await progressOf(jobId);
    expect(alone.body).toMatchObject({
      phase: 'running',
      ended: 0,
      total: 20,
      percent: 0,
      calls: { done: 0, failed: 0, unknown: 0, open: 0 },
      steps_at_provider: 0,
      eta: null,
    });
    expect((await api.call('GET', `/v1/batches/${jobId}`)).body.progress).toEqual(alone.body);
    expect((await api.call('GET', '/v1/batches?limit=1')).body[0].progress).toBeNull();
  });

  test('has a range of times for its end after five ends', async () => {
    await api.database.pool.query(
      `update batch set created_at = created_at - interval '100 s' where id = $1`,
      [uuidOf(jobId)],
    );
    for (let ended = 1; ended <= 5; ended++) {
      expect((await progressOf(jobId)).body.eta).toBeNull();
      await endRun(api, jobId, ended);
    }
    const { eta, ended, percent } = (await progressOf(jobId)).body;
    expect({ ended, percent }).toEqual({ ended: 5, percent: 25 });
    expect(Date.parse(eta.earliest)).toBeGreaterThan(Date.now() - 1_000);
    expect(Date.parse(eta.latest)).toBeGreaterThan(Date.parse(eta.earliest));
  });

  test('of an unknown batch is a 404', async () => {
    for (const path of ['progress', 'timeline', 'events'])
      expect((await api.call('GET', `/v1/batches/job-${UNKNOWN_UUID}/${path}`)).status).toBe(404);
  });
});

describe.each(['', '/progress'])('GET /v1/batches/{id}%s', (path) => {
  const get = (tag?: string) =>
    api.call(
      'GET',
      `/v1/batches/${jobId}${path}`,
      undefined,
      tag === undefined ? {} : { 'if-none-match': tag },
    );

  test('is a 304 while nothing has changed, and has another strong ETag after each change', async () => {
    const tags = new Set<string>();
    const changes: (() => Promise<unknown>)[] = [
      () => endRun(api, jobId),
      () => endRun(api, jobId, 7),
      () => api.call('POST', `/v1/batches/${jobId}/pause`),
      () => api.call('POST', `/v1/batches/${jobId}/pause`),
      () => api.call('POST', `/v1/batches/${jobId}/resume`),
      () =>
        api.database.pool.query(
          `update credential set paused_until = app_now() + interval '1 hour', pause_reason = 'tired'`,
        ),
      () => api.database.pool.query(`update credential set paused_until = null, pause_reason = null`),
      () => end(api, jobId),
    ];
    for (const change of changes) {
      const first = await get();
      const { etag = '' } = first.headers;
      expect(first.status).toBe(200);
      expect(etag).toMatch(/^"\d+-[\w-]{11}"$/);
      const again = await get(etag);
      expect({ status: again.status, body: again.body, etag: again.headers['etag'] }).toEqual({
        status: 304,
        body: '',
        etag,
      });
      expect((await get(`"0-aaaaaaaaaaa", W/${etag}`)).status).toBe(304);
      await change();
      const changed = await get(etag);
      expect(changed.status).toBe(200);
      expect(changed.body).not.toEqual(first.body);
      tags.add(etag);
    }
    // The pause of the credential changes no version of the batch, and its end brings the former answer back.
    expect(tags.size).toBe(changes.length - 1);
  });
});

describe('the events of a batch', () => {
  test('cut and resumed ten times miss nothing, come once, and end with done', async () => {
    const url = `${origin}/v1/batches/${jobId}/events`;
    const received: { readonly id: string; readonly version: number; readonly ended: number }[] = [];
    let last: string | null = null;
    let committed = 0;
    for (let cut = 0; cut <= 10; cut++) {
      // Before the connection, and while it is open.
      if (cut % 2 === 1) {
        await endRun(api, jobId, cut % 8);
        committed++;
      }
      const stream = await openStream(url, last);
      expect(stream.response.headers['content-type']).toContain('text/event-stream');
      if (cut > 0) {
        await endRun(api, jobId, (cut + 3) % 8);
        committed++;
      }
      for (;;) {
        const event = await stream.next();
        const { version, ended } = event!.data;
        last = event!.id;
        received.push({ id: last, version, ended });
        expect(event!.event).toBe('progress');
        // The event with all commits so far is the last for now.
        if (ended === committed) break;
      }
      stream.cut();
    }
    const versions = received.map(({ version }) => version);
    expect(versions).toEqual([...new Set(versions)].toSorted((a, b) => a - b));
    expect(received.at(-1)).toMatchObject({ ended: committed });
    expect(new Set(received.map(({ id }) => id)).size).toBe(received.length);

    const stream = await openStream(url, last);
    await end(api, jobId);
    const done = await stream.next();
    expect(done).toMatchObject({ event: 'done', data: { phase: 'done', percent: 100 } });
    expect(await stream.next()).toBeNull();
    // An EventSource reconnects after an end, unless it gets a 204.
    expect((await openStream(url, done!.id)).status).toBe(204);
    expect(await (await openStream(url, last)).next()).toEqual(done);
    expect(`"${done!.id}"`).toBe((await progressOf(jobId)).headers['etag']);
  });

  test('with an id of another stream are a 422', async () => {
    expect((await openStream(`${origin}/v1/batches/${jobId}/events`, 'event-1-1')).status).toBe(422);
    expect((await openStream(`${origin}/v1/batches/${jobId}/events?last_event_id=x`)).status).toBe(422);
  });

  test('tell what changes without a commit of the batch', async () => {
    const stream = await openStream(`${origin}/v1/batches/${jobId}/events`);
    const first = await stream.next();
    await api.database.pool.query(
      `update credential set paused_until = app_now() + interval '1 hour', pause_reason = 'tired'`,
    );
    const second = await stream.next();
    await api.database.pool.query(`update credential set paused_until = null, pause_reason = null`);
    stream.cut();
    expect(second!.data).toMatchObject({
      version: first!.data.version,
      waiting_reason: { cause: 'credential' },
    });
  });

  test('end when the batch is deleted', async () => {
    const stream = await openStream(`${origin}/v1/batches/${jobId}/events`);
    await stream.next();
    await api.database.pool.query(`delete from idempotency_key`);
    await api.database.pool.query(`delete from batch where id = $1`, [uuidOf(jobId)]);
    expect(await stream.next()).toBeNull();
  });
});

test('500 listeners are one statement a look, no listener is none, and the 501st is refused', async () => {
  let statements = 0;
  const pool = createPool({ url: api.database.url, max: 4, applicationName: 'test' });
  const db = new Kysely<DB>({
    dialect: new PostgresDialect({ pool }),
    log: () => {
      statements++;
    },
  });
  const app = buildServer({
    db,
    bell: { ring: async () => undefined },
    apiKey: API_KEY,
    model: 'simulator',
    eventStreamsMax: 500,
  });
  const address = await listenOnFreePort(app);
  try {
    const jobs = [jobId, await submit(api, 1)];
    const streams = await Promise.all(
      Array.from({ length: 500 }, (_, index) =>
        openStream(`${address}/v1/batches/${jobs[index % 2]}/events`),
      ),
    );
    const firsts = await Promise.all(streams.map((stream) => stream.next()));
    expect(firsts.every((event) => event !== null)).toBe(true);
    expect((await openStream(`${address}/v1/batches/${jobId}/events`)).status).toBe(503);

    statements = 0;
    const from = performance.now();
    for (let change = 1; change <= 4; change++) {
      await Promise.all(jobs.map((job) => endRun(api, job)));
      await Promise.all(
        streams.map(async (stream) => {
          while ((await stream.next())!.data.ended < change);
        }),
      );
    }
    const looks = Math.ceil((performance.now() - from) / 250) + 1;
    expect(statements).toBeGreaterThanOrEqual(4);
    expect(statements).toBeLessThanOrEqual(looks);

    streams.forEach((stream) => stream.cut());
    // The server has seen all ends when a place is free and the looks have stopped.
    let before = -1;
    while (before !== statements) {
      before = statements;
      await new Promise((resolve) => setTimeout(resolve, 600));
    }
  } finally {
    await app.close();
    await db.destroy();
  }
});

test('a server that shuts down ends its streams', async () => {
  const db = connect(createPool({ url: api.database.url, max: 4, applicationName: 'test' }));
  const app = buildServer({ db, bell: { ring: async () => undefined }, apiKey: API_KEY, model: 'simulator' });
  const address = await listenOnFreePort(app);
  const stream = await openStream(`${address}/v1/batches/${jobId}/events`);
  const all = await openStream(`${address}/v1/events`);
  await stream.next();
  const closing = app.close();
  expect(await stream.next()).toBeNull();
  expect(await all.next()).toBeNull();
  await closing;
  await db.destroy();
});

describe('the timeline of a batch', () => {
  test('sums to the counts of the batch, in each width', async () => {
    await api.database.pool.query(
      `insert into batch_minute (batch_id, minute, slot, project_id, ended, failed, input_tokens, output_tokens, cost_nanousd)
       select b.id, date_trunc('hour', b.created_at) + m * interval '1 minute', s, b.project_id, 2, 1, 10, 5, 1000000
         from batch b cross join generate_series(0, 89) m cross join generate_series(0, 1) s where b.id = $1`,
      [uuidOf(jobId)],
    );
    const read = async (query: string) =>
      (await api.call('GET', `/v1/batches/${jobId}/timeline${query}`)).body;
    for (const [bucket, count] of [
      ['1m', 90],
      ['5m', 18],
      ['15m', 6],
      ['1h', 2],
    ] as const) {
      const { buckets } = await read(`?bucket=${bucket}`);
      expect(buckets).toHaveLength(count);
      const sum = (name: string): number =>
        buckets.reduce((total: number, each: Record<string, number>) => total + Number(each[name]), 0);
      expect(['ended', 'failed', 'input_tokens', 'output_tokens'].map(sum)).toEqual([360, 180, 1_800, 900]);
      expect(sum('cost_usd')).toBeCloseTo(0.18);
    }
    expect((await read('')).bucket).toBe('1m');
    expect((await read('?limit=89')).bucket).toBe('5m');
    expect((await read('?limit=2')).bucket).toBe('1h');
    const [first] = (await read('?bucket=1h')).buckets;
    expect((await read('?bucket=1h&limit=1')).buckets[0].from > first.from).toBe(true);
  });

  test('of a batch without an end is empty', async () => {
    expect((await api.call('GET', `/v1/batches/${jobId}/timeline`)).body).toEqual({
      bucket: '1m',
      buckets: [],
    });
    expect((await api.call('GET', `/v1/batches/${jobId}/timeline?bucket=2m`)).status).toBe(422);
  });
});
