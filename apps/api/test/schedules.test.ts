import { auditInvariants } from '@nightshift/db';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { countRows, createAgent, openApi, UNKNOWN_UUID, type Answer, type TestApi } from './api.ts';

let api: TestApi;
let agent: string;
beforeAll(async () => {
  api = await openApi();
  agent = await createAgent(api);
});
afterAll(async () => {
  expect(await auditInvariants(api.database.db)).toEqual([]);
  await api.close();
});

let names = 0;
const bodyOf = (agent_id = agent): object => ({
  requests: [{ agent_id, input: 'Go on.', conversation: 'isolated' }],
});
const scheduleOf = (overrides: object = {}): object => ({
  name: `schedule ${++names}`,
  cron: '30 2 * * *',
  time_zone: 'Europe/Berlin',
  body: bodyOf(),
  ...overrides,
});

async function create(overrides: object = {}): Promise<Answer['body']> {
  const { status, body } = await api.call('POST', '/v1/schedules', scheduleOf(overrides));
  expect(body).toMatchObject({ id: expect.stringMatching(/^schedule-/) as string });
  expect(status).toBe(200);
  return body;
}

const patch = (id: string, change: object): Promise<Answer> =>
  api.call('PATCH', `/v1/schedules/${id}`, change);
const post = (id: string, action: string): Promise<Answer> =>
  api.call('POST', `/v1/schedules/${id}/${action}`);

/** Ends the open batches of a schedule. */
async function endBatches(): Promise<void> {
  const { body } = await api.call('GET', '/v1/batches?limit=100');
  for (const { id } of body) await api.call('PATCH', `/v1/batches/${id}/cancel`);
  await api.database.pool.query(`
    update run set state = 'cancelled', ended_at = app_now(), stop_reason = 'cancelled', overdue_from = null where ended_at is null;
    create temp table ended as
      select * from run where state = 'cancelled' and batch_id in (select id from batch where completed_at is null);
    insert into batch_tally (batch_id, slot, project_id, version, cancelled)
      select batch_id, 0, project_id, 1, count(*) from ended group by batch_id, project_id;
    insert into ended_runs (batch_id, slot, version, project_id, run_ids)
      select batch_id, 0, 1, project_id, array_agg(id) from ended group by batch_id, project_id;
    insert into run_failure (batch_id, run_id, project_id, failed_at, state, stop_reason, fingerprint)
      select batch_id, id, project_id, ended_at, state, stop_reason, failure_group(stop_reason, null) from ended;
    drop table ended;
    delete from run_chunk;
    update conversation set run_id = null;
    update batch set state = 'cancelled', completed_at = app_now(), next_due_at = null where completed_at is null`);
}

describe('a schedule', () => {
  test('is created, shows its next five times and the rule in words, and is listed', async () => {
    const made = await create({ failures_max: 3, max_cost_usd_per_month: 25 });
    expect(made).toMatchObject({
      state: 'active',
      state_reason: null,
      description: 'At 02:30, Europe/Berlin',
      overlap: 'skip',
      catch_up_window_s: 3600,
      jitter_s: 0,
      ends_at: null,
      max_cost_usd_per_month: '25.00',
      spent_usd_this_month: '0.00',
      failures_max: 3,
      revision: 1,
      last_tick: null,
    });
    expect(made.next_ticks).toHaveLength(5);
    expect(made.body).toMatchObject(bodyOf());
    const read = await api.call('GET', `/v1/schedules/${made.id}`);
    expect(read.body).toEqual(made);
    const list = await api.call('GET', '/v1/schedules?limit=1');
    expect(list.body).toEqual([made]);
    expect(list.headers['link']).toContain(`after=${made.id}`);
  });

  test('stores nothing of the batch that its body is tried as', async () => {
    const before = await countRows(api);
    await create();
    expect({ ...(await countRows(api)), definition: 0 }).toEqual({ ...before, definition: 0 });
  });

  test('keeps every kind of body', async () => {
    const body = {
      template: { agent_id: agent, input: 'Hello {{ name }}' },
      inputs: [{ custom_id: 'one', variables: { name: 'Ann' } }],
      metadata: { note: '\u0000 and \ud800' },
    };
    const made = await create({ body });
    expect(made.body).toMatchObject({ template: body.template, inputs: body.inputs });
    expect((await post(made.id, 'run-now')).body).toMatchObject({ outcome: 'started' });
    await endBatches();
  });
});

describe('bad input names its field', () => {
  const cases: readonly [string, object | (() => object), string][] = [
    ['an unknown zone', { time_zone: 'Europe/Atlantis' }, '/time_zone'],
    ['an offset for a zone', { time_zone: '+01:00' }, '/time_zone'],
    ['an impossible rule', { cron: '0 0 30 2 *' }, '/cron'],
    ['six fields', { cron: '0 30 2 * * *' }, '/cron'],
    ['a rule of every second', { cron: '* * * * * *' }, '/cron'],
    ['four fields', { cron: '30 2 * *' }, '/cron'],
    ['a nickname', { cron: '@daily' }, '/cron'],
    ['an end in the past', { ends_at: '2020-01-01T00:00:00Z' }, '/ends_at'],
    [
      'an end before the next tick',
      () => ({ cron: '0 0 29 2 *', ends_at: new Date(Date.now() + 1000).toISOString() }),
      '/ends_at',
    ],
    ['a window below a minute', { catch_up_window_s: 59 }, '/catch_up_window_s'],
    ['a jitter beyond the next tick', { cron: '* * * * *', jitter_s: 60 }, '/jitter_s'],
    ['no failures', { failures_max: 0 }, '/failures_max'],
    ['a budget of nothing', { max_cost_usd_per_month: 0 }, '/max_cost_usd_per_month'],
    ['another overlap', { overlap: 'replace' }, '/overlap'],
    ['an empty name', { name: '' }, '/name'],
    ['an unknown field', { crontab: 'x' }, '/crontab'],
    ['no body', { body: undefined }, '/body'],
    ['a body of no batch', { body: {} }, '/body/requests'],
    ['an empty list of requests', { body: { requests: [] } }, '/body/requests'],
    ['a fleet without a match', { body: { agents: { tags: ['none'] }, input: 'x' } }, '/body/agents'],
    ['an unknown variable', { body: { agents: {}, input: '{{ x }}' } }, '/body/input'],
    ['an unknown label', { body: { kind: 'memory_rewrite', agents: {}, blocks: ['zz'] } }, '/body/blocks/0'],
    [
      "a cursor in the agents' conversations",
      { body: { agents: {}, input: 'x', cursor: 'c', conversation: 'agent' } },
      '/body/conversation',
    ],
    ['an unknown agent', () => ({ body: bodyOf(`agent-${UNKNOWN_UUID}`) }), '/body/requests/0/agent_id'],
    ['an id that is none', { body: bodyOf('agent-1') }, '/body/requests/0/agent_id'],
    [
      'a deadline to come',
      () => ({ body: { ...bodyOf(), deadline: '2099-01-01T00:00:00Z' } }),
      '/body/deadline',
    ],
    [
      'a past deadline',
      () => ({ body: { ...bodyOf(), deadline: '2020-01-01T00:00:00Z' } }),
      '/body/deadline',
    ],
    [
      'an unknown variable',
      () => ({
        body: {
          template: { agent_id: agent, input: '{{ nam }}' },
          inputs: [{ custom_id: 'a', variables: {} }],
        },
      }),
      '/body/inputs/0/variables',
    ],
  ];
  test.each(cases)('%s', async (_what, overrides, path) => {
    const before = await api.call('GET', '/v1/schedules?limit=1000');
    const given = typeof overrides === 'function' ? overrides() : overrides;
    const refused = await api.call('POST', '/v1/schedules', scheduleOf(given));
    expect([400, 404, 422]).toContain(refused.status);
    expect(refused.body.errors.map((field: { path: string }) => field.path)).toEqual(
      expect.arrayContaining([expect.stringMatching(new RegExp(`^${path}`)) as string]),
    );
    expect((await api.call('GET', '/v1/schedules?limit=1000')).body).toEqual(before.body);
  });

  test('a budget for a model without a price', async () => {
    const dear = await createAgent(api);
    await api.database.pool.query(`update agent set model = 'anthropic/unheard-of' where id = $1`, [
      dear.slice(6),
    ]);
    const refused = await api.call(
      'POST',
      '/v1/schedules',
      scheduleOf({ body: bodyOf(dear), max_cost_usd_per_month: 1 }),
    );
    expect(refused.status).toBe(422);
    expect(refused.body.errors[0].path).toBe('/max_cost_usd_per_month');
  });

  test('a taken name', async () => {
    const { name } = await create();
    const { id } = await create();
    expect(await api.call('POST', '/v1/schedules', scheduleOf({ name }))).toMatchObject({ status: 409 });
    expect(await patch(id, { name })).toMatchObject({ status: 409 });
  });

  test('an unknown schedule', async () => {
    const path = `/v1/schedules/schedule-${UNKNOWN_UUID}`;
    for (const [method, url] of [
      ['GET', path],
      ['PATCH', path],
      ['DELETE', path],
      ['GET', `${path}/ticks`],
      ['GET', `${path}/preview`],
      ['POST', `${path}/pause`],
      ['POST', `${path}/resume`],
      ['POST', `${path}/run-now`],
    ] as const) {
      expect(await api.call(method, url, method === 'PATCH' ? {} : undefined), url).toMatchObject({
        status: 404,
      });
    }
  });
});

describe('a change', () => {
  test('keeps absent fields, raises the revision, and moves the next tick with the rule alone', async () => {
    const made = await create();
    const renamed = await patch(made.id, { name: `${made.name} again`, overlap: 'queue' });
    expect(renamed.body).toMatchObject({
      overlap: 'queue',
      revision: 2,
      next_ticks: made.next_ticks,
      body: made.body,
    });
    const moved = await patch(made.id, { time_zone: 'UTC', expected_revision: 2 });
    expect(moved.body).toMatchObject({ description: 'At 02:30, UTC', revision: 3 });
    expect(moved.body.next_ticks).not.toEqual(made.next_ticks);
  });

  test('of another revision is refused', async () => {
    const { id } = await create();
    expect(await patch(id, { name: 'other', expected_revision: 7 })).toMatchObject({ status: 409 });
  });

  test('again after a lost answer is no conflict: it has the settings already', async () => {
    const { id } = await create();
    const change = { name: 'renamed', ends_at: '2099-01-01T00:00:00Z', expected_revision: 1 };
    const first = await patch(id, change);
    const again = await patch(id, change);
    expect([again.status, again.body]).toEqual([200, first.body]);
    expect(await patch(id, { ...change, jitter_s: 7 })).toMatchObject({ status: 409 });
  });

  test('keeps a tick that is due and waits for its jitter', async () => {
    const made = await create({ jitter_s: 600 });
    const uuid = made.id.replace('schedule-', '');
    const timesOf = async () =>
      (
        await api.database.pool.query<{ tick_due_at: Date; late_s: number }>(
          `select tick_due_at, extract(epoch from next_due_at - tick_due_at)::float8 as late_s from schedule where id = $1`,
          [uuid],
        )
      ).rows[0];
    await api.database.pool.query(
      `update schedule set tick_due_at = date_trunc('minute', now()) where id = $1`,
      [uuid],
    );
    const before = await timesOf();
    await patch(made.id, { jitter_s: 0, ends_at: '2099-01-01T00:00:00Z' });
    expect(await timesOf()).toEqual({ tick_due_at: before?.tick_due_at, late_s: 0 });
  });

  test('is checked like a new schedule, and a refused one changes nothing', async () => {
    const made = await create();
    for (const [change, path] of [
      [{ cron: '0 0 30 2 *' }, '/cron'],
      [{ body: bodyOf(`agent-${UNKNOWN_UUID}`) }, '/body/requests/0/agent_id'],
      [{ ends_at: '2020-01-01T00:00:00Z' }, '/ends_at'],
      [{ cron: '*/5 * * * *', jitter_s: 300 }, '/jitter_s'],
    ] as const) {
      const refused = await patch(made.id, change);
      expect(refused.body.errors[0].path).toBe(path);
    }
    expect((await api.call('GET', `/v1/schedules/${made.id}`)).body).toEqual(made);
  });
});

describe('a pause', () => {
  test('shows the given reason, also when it is paused already', async () => {
    const made = await create();
    const pause = (body?: object) => api.call('POST', `/v1/schedules/${made.id}/pause`, body);
    expect((await pause({ reason: ' Wrong prices. ' })).body).toMatchObject({
      state: 'paused',
      state_reason: 'Wrong prices.',
    });
    expect((await pause()).body.state_reason).toBe('Wrong prices.');
    expect((await pause({ reason: 'Still wrong.' })).body.state_reason).toBe('Still wrong.');
    expect((await pause({ reason: '' })).status).toBe(422);
    expect((await pause({ reason: 'a'.repeat(501) })).status).toBe(422);
  });

  test('has its reason, and a resume goes on from now', async () => {
    const made = await create();
    const paused = await post(made.id, 'pause');
    expect(paused.body).toMatchObject({ state: 'paused', next_ticks: [] });
    expect(paused.body.state_reason).toContain('resume');
    expect((await post(made.id, 'pause')).status).toBe(200);
    expect((await patch(made.id, { cron: '0 5 * * *' })).body).toMatchObject({ state: 'paused' });
    const resumed = await post(made.id, 'resume');
    expect(resumed.body).toMatchObject({ state: 'active', state_reason: null });
    expect(Date.parse(resumed.body.next_ticks[0])).toBeGreaterThan(Date.now());
    expect((await post(made.id, 'resume')).body).toEqual(resumed.body);
  });
});

describe('run-now', () => {
  test('makes a batch at once, also while paused, and refuses a second while it is open', async () => {
    const { id } = await create();
    await post(id, 'pause');
    const tick = await post(id, 'run-now');
    expect(tick.body).toMatchObject({ is_manual: true, outcome: 'started', reason: null });
    const batch = await api.call('GET', `/v1/batches/${tick.body.job_id}`);
    expect(batch.body).toMatchObject({ schedule_id: id, tick_due_at: tick.body.due_at });
    expect(api.signals).toContainEqual({ kind: 'compose', id: '*' });
    expect(await post(id, 'run-now')).toMatchObject({ status: 409 });
    const listed = await api.call('GET', `/v1/batches?schedule_id=${id}`);
    expect(listed.body.map((job: { id: string }) => job.id)).toEqual([tick.body.job_id]);
    const ticks = await api.call('GET', `/v1/schedules/${id}/ticks`);
    expect(ticks.body).toEqual([tick.body]);
    expect((await api.call('GET', `/v1/schedules/${id}`)).body.last_tick).toEqual(tick.body);
    await endBatches();
    const next = await post(id, 'run-now');
    expect(next.status).toBe(200);
    const page = await api.call('GET', `/v1/schedules/${id}/ticks?limit=1`);
    expect(page.body).toEqual([next.body]);
    const [url] = /<([^>]+)>/.exec(page.headers['link'] ?? '')?.slice(1) ?? [];
    expect((await api.call('GET', url!)).body).toEqual([tick.body]);
    await endBatches();
  });

  test('of two callers at once, one makes the batch', async () => {
    const { id } = await create();
    const answers = await Promise.all([post(id, 'run-now'), post(id, 'run-now'), post(id, 'run-now')]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    await endBatches();
  });

  test('waits with `overlap: queue`, once', async () => {
    const { id } = await create({ overlap: 'queue' });
    expect((await post(id, 'run-now')).body).toMatchObject({ outcome: 'started' });
    expect((await post(id, 'run-now')).body).toMatchObject({ outcome: 'waiting', reason: 'overlap' });
    expect(await post(id, 'run-now')).toMatchObject({ status: 409 });
    expect((await post(id, 'pause')).body).toMatchObject({ state: 'paused' });
    expect((await api.call('GET', `/v1/schedules/${id}/ticks`)).body[0]).toMatchObject({
      outcome: 'waiting',
    });
    await endBatches();
  });

  test('caps the batch by the budget of the month, and is refused without one', async () => {
    const { id } = await create({ max_cost_usd_per_month: 2, body: { ...bodyOf(), max_cost_usd: 25 } });
    const tick = await post(id, 'run-now');
    const { body: batch } = await api.call('GET', `/v1/batches/${tick.body.job_id}`);
    expect(batch.limits.max_cost_usd).toBe('2.00');
    await endBatches();
    await api.database.pool.query(
      `update batch_tally set cost_nanousd = 2000000000, input_tokens = 0 where batch_id = $1`,
      [batch.id.slice(4)],
    );
    const refused = await post(id, 'run-now');
    expect(refused).toMatchObject({ status: 409 });
    expect(refused.body.detail).toContain('nothing left');
    expect((await api.call('GET', `/v1/schedules/${id}`)).body.spent_usd_this_month).toBe('2.00');
    await api.database.pool.query(`update batch_tally set cost_nanousd = 0 where batch_id = $1`, [
      batch.id.slice(4),
    ]);
  });

  test('answers the refusal of a body whose agent is gone', async () => {
    const gone = await createAgent(api);
    const { id } = await create({ body: bodyOf(gone) });
    await api.call('DELETE', `/v1/agents/${gone}`);
    const refused = await post(id, 'run-now');
    expect(refused).toMatchObject({ status: 404 });
    expect(refused.body.errors[0].path).toBe('/body/requests/0/agent_id');
  });
});

test('a deleted schedule leaves its batches', async () => {
  const { id } = await create();
  const tick = await post(id, 'run-now');
  expect((await api.call('DELETE', `/v1/schedules/${id}`)).status).toBe(200);
  expect((await api.call('GET', `/v1/schedules/${id}`)).status).toBe(404);
  const batch = await api.call('GET', `/v1/batches/${tick.body.job_id}`);
  expect(batch.body).toMatchObject({ schedule_id: null, tick_due_at: null, state: 'running' });
});

test('a preview shows the next times of a rule, and of a paused schedule', async () => {
  const shown = await api.call('POST', '/v1/schedules/preview', {
    cron: '0 9 * * MON-FRI',
    time_zone: 'UTC',
    count: 7,
  });
  expect(shown.body.next_ticks).toHaveLength(7);
  expect(shown.body.description).toBe('At 09:00, Monday through Friday, UTC');
  const { id } = await create();
  await post(id, 'pause');
  expect((await api.call('GET', `/v1/schedules/${id}/preview?count=3`)).body.next_ticks).toHaveLength(3);
  const refused = await api.call('POST', '/v1/schedules/preview', { cron: '0 0 31 4 *', time_zone: 'UTC' });
  expect(refused.body.errors[0].path).toBe('/cron');
});
