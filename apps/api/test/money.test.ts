import { SHIPPED_PRICES } from '@nightshift/agent-core';
import { inTransaction, newId, sealReadyRuns, commitReservations } from '@nightshift/db';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildServer } from '../src/index.ts';
import { API_KEY, countRows, createAgent, openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
let agent_id: string;
beforeAll(async () => {
  api = await openApi();
  agent_id = await createAgent(api);
});
afterAll(() => api.close());

const submit = (caps: object, request: object = {}) =>
  api.call('POST', '/v1/batches', {
    requests: [{ agent_id, input: 'Go.', conversation: 'isolated', ...request }],
    ...caps,
  });

describe('caps', () => {
  test('are stored and shown on batch and run, to the billionth of a dollar', async () => {
    const { status, body } = await submit(
      { max_cost_usd: 0.29, max_output_tokens: 50_000 },
      { max_cost_usd: 0.000000001, max_output_tokens: 700 },
    );
    expect(status).toBe(200);
    expect(body.limits).toEqual({
      max_cost_usd: '0.29',
      max_output_tokens: 50_000,
      reserved_usd: '0.00',
      reserved_output_tokens: 0,
      overshoots: 0,
      cut_offs: 0,
    });
    const [run] = (await api.call('GET', `/v1/runs?batch_id=${body.id}`)).body;
    expect(run.limits).toEqual({ max_steps: 10, max_cost_usd: '0.000000001', max_output_tokens: 700 });
  });

  test.each([
    ['/max_cost_usd', { max_cost_usd: 0.001 }, /^the smallest sensible cap for this batch is about \$0\.0/],
    ['/max_output_tokens', { max_output_tokens: 8_191 }, /about 8\d{3} tokens$/],
  ])(
    'without room for one request are refused with the smallest sensible one: %s',
    async (path, caps, least) => {
      const before = await countRows(api);
      const { status, body } = await submit(caps);
      expect(status).toBe(422);
      expect(body.errors).toEqual([{ path, message: expect.stringMatching(least) as string }]);
      expect(await countRows(api)).toEqual(before);
      const estimate = await api.call('POST', '/v1/batches/estimate', {
        requests: [{ agent_id, input: 'Go.', conversation: 'isolated' }],
        ...caps,
      });
      expect(estimate.body).toMatchObject({ verdict: 'cannot_start', rounds: null });
      const { max_cost_usd, max_output_tokens } = estimate.body.smallest_cap as {
        readonly max_cost_usd: string;
        readonly max_output_tokens: number;
      };
      const enough = {
        max_cost_usd: Number(max_cost_usd) * 1.05,
        max_output_tokens: max_output_tokens + 100,
      };
      expect((await submit(enough)).status).toBe(200);
    },
  );

  test('with room for a single run of many are accepted, and refused without it', async () => {
    const large = await createAgent(api, { system: 'Long. '.repeat(17_000) });
    const request = { agent_id: large, input: 'Go.', conversation: 'isolated' };
    const submitAll = (requests: object[]) =>
      api.call('POST', '/v1/batches', { requests, max_cost_usd: 0.06 });
    const requests = Array.from({ length: 300 }, () => request);
    expect((await submitAll(requests)).status).toBe(422);
    // A sample of two thirds leaves out the third run.
    expect((await submitAll(requests.with(2, { ...request, agent_id }))).status).toBe(200);
  });

  test.each([
    ['/max_cost_usd', { max_cost_usd: 0 }, {}],
    ['/max_cost_usd', { max_cost_usd: -1 }, {}],
    ['/max_cost_usd', { max_cost_usd: 1e-10 }, {}],
    ['/max_cost_usd', { max_cost_usd: 1e9 }, {}],
    ['/max_cost_usd', { max_cost_usd: '1' }, {}],
    ['/max_output_tokens', { max_output_tokens: 0 }, {}],
    ['/max_output_tokens', { max_output_tokens: 1.5 }, {}],
    ['/requests/0/max_cost_usd', {}, { max_cost_usd: 0 }],
    ['/requests/0/max_output_tokens', {}, { max_output_tokens: -3 }],
  ])('with invalid values are refused by name and store nothing: %s', async (path, caps, request) => {
    const before = await countRows(api);
    const { status, body } = await submit(caps, request);
    expect(status).toBe(422);
    expect(JSON.stringify(body)).toContain(path);
    expect(await countRows(api)).toEqual(before);
  });

  test.each([
    ['/max_cost_usd', { max_cost_usd: 1 }, {}],
    ['/requests/0/max_cost_usd', {}, { max_cost_usd: 1 }],
  ])('in dollars on a model without a price are refused (%s)', async (path, caps, request) => {
    const app = buildServer({
      db: api.database.db,
      bell: { ring: () => Promise.resolve() },
      apiKey: API_KEY,
      model: 'simulator',
      prices: { ...SHIPPED_PRICES, models: new Map() },
    });
    const before = await countRows(api);
    const answer = await app.inject({
      method: 'POST',
      url: '/v1/batches',
      headers: { authorization: `Bearer ${API_KEY}` },
      payload: { requests: [{ agent_id, input: 'Go.', ...request }], ...caps },
    });
    expect(answer.statusCode).toBe(422);
    expect(answer.body).toContain(path);
    expect(answer.body).toContain('no price');
    expect(await countRows(api)).toEqual(before);
    await app.close();
  });
});

describe('a batch that is paused', () => {
  const stateOf = async (id: string) => (await api.call('GET', `/v1/batches/${id}`)).body;
  const loseChunks = () => api.database.pool.query('delete from run_chunk');

  test('shows the pause and its reason; a resume wakes the workers', async () => {
    const { body } = await submit({});
    expect((await api.call('POST', `/v1/batches/${body.id}/pause`)).body).toMatchObject({
      state: 'paused',
      state_reason: 'Paused by request; resume it to continue.',
    });
    expect((await api.call('POST', `/v1/messages/batches/${body.id}/pause`)).status).toBe(200);
    await loseChunks();
    api.signals.length = 0;
    const resumed = await api.call('POST', `/v1/batches/${body.id}/resume`);
    expect(resumed.body).toMatchObject({ state: 'running', state_reason: null });
    expect(api.signals).toEqual([{ kind: 'compose', id: '*' }]);
    expect((await api.call('POST', `/v1/batches/${body.id}/resume`)).status).toBe(200);
  });

  test('at its cap continues when the cap is raised', async () => {
    const { body } = await submit({ max_cost_usd: 0.1 });
    const id = body.id.slice('job-'.length);
    await api.database.pool.query(`update batch set state = 'paused', state_reason = 'cap' where id = $1`, [
      id,
    ]);
    await api.database.pool.query(`update batch_budget set room = 'short' where batch_id = $1`, [id]);
    await loseChunks();
    api.signals.length = 0;
    const raised = await api.call('PATCH', `/v1/batches/${body.id}`, { max_cost_usd: 2 });
    expect(raised.body).toMatchObject({
      state: 'running',
      limits: { max_cost_usd: '2.00', max_output_tokens: null },
    });
    expect(api.signals).toEqual([{ kind: 'compose', id: '*' }]);
  });

  test('or an ended batch: 409 and 404 name the impossible action', async () => {
    const { body } = await submit({});
    await api.call('PATCH', `/v1/batches/${body.id}/cancel`);
    for (const verb of ['pause', 'resume'])
      expect((await api.call('POST', `/v1/batches/${body.id}/${verb}`)).status).toBe(409);
    expect((await api.call('PATCH', `/v1/batches/${body.id}`, { max_cost_usd: 2 })).status).toBe(409);
    expect((await api.call('POST', `/v1/batches/job-${UNKNOWN_UUID}/pause`)).status).toBe(404);
    expect(await stateOf(body.id)).toMatchObject({ state: 'cancelling' });
  });
});

describe('new caps', () => {
  test('are lifted by null, kept if absent, and refused if invalid or below the used amount', async () => {
    const { body } = await submit({ max_cost_usd: 1, max_output_tokens: 10_000 });
    const patch = (caps: object) => api.call('PATCH', `/v1/messages/batches/${body.id}`, caps);
    expect((await patch({ max_output_tokens: null })).body.limits).toMatchObject({
      max_cost_usd: '1.00',
      max_output_tokens: null,
    });
    for (const caps of [{}, { max_cost_usd: -1 }, { max_cost: 1 }, { max_output_tokens: 'all' }])
      expect((await patch(caps)).status).toBe(422);

    const id = newId();
    const batch_id = body.id.slice('job-'.length);
    await api.database.pool.query(
      `delete from run_chunk where run_ids[1] not in (select id from run where batch_id = $1)`,
      [batch_id],
    );
    await inTransaction(api.database.db, async (trx) => {
      const batch = { id, project_id: PROJECT_ID, credential: 'default', nonce: 'abcdef' };
      await sealReadyRuns(trx, batch, 1);
      const { id: run_id } = await trx
        .selectFrom('run')
        .select('id')
        .where('batch_id', '=', batch_id)
        .executeTakeFirstOrThrow();
      const amount = { cost_nanousd: 250_000_000, output_tokens: 8_192 };
      const reserved = [{ run_id, batch_id, amount }];
      await commitReservations(trx, id, {
        reserved,
        turned_away: [],
        left: null,
        short_batch_ids: [],
        paused: [],
      });
    });
    const { status, body: problem } = await patch({ max_cost_usd: 0.2 });
    expect(status).toBe(422);
    expect(JSON.stringify(problem)).toContain(
      '/max_cost_usd must not be below what is spent and reserved: 0.25 dollars',
    );
    expect((await patch({ max_cost_usd: 0.25 })).body.limits).toMatchObject({ reserved_usd: '0.25' });
  });

  test('on a batch submitted without any are refused', async () => {
    const { body } = await submit({});
    expect((await api.call('PATCH', `/v1/batches/${body.id}`, { max_cost_usd: 1 })).status).toBe(409);
  });
});

test('models are listed with their window and their longest answer', async () => {
  const models = (await api.call('GET', '/v1/models')).body;
  expect(models.find((model: { name: string }) => model.name === 'claude-haiku-4-5')).toMatchObject({
    context_window: 200_000,
    max_output_tokens: 64_000,
    price_table: SHIPPED_PRICES.version,
  });
});
