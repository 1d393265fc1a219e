import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { countRows, createAgent, openApi, type TestApi } from './api.ts';

let api: TestApi;
let agent_id: string;
beforeAll(async () => {
  api = await openApi();
  agent_id = await createAgent(api, { tags: ['piloted'] });
});
afterAll(() => api.close());

const submit = (pilot: unknown, path = '/v1/batches') => {
  const request = { agent_id, input: 'Go.', conversation: 'isolated' };
  return api.call('POST', path, { requests: Array.from({ length: 50 }, () => request), pilot });
};

describe('a pilot', () => {
  test.each(['/v1/batches', '/v1/messages/batches'])(
    'is stored and shown at %s, with its defaults',
    async (path) => {
      const { status, body } = await submit({ then: 'pause' }, path);
      expect(status).toBe(200);
      const pilot = {
        state: 'running',
        runs: 20,
        then: 'pause',
        failure_rate: 0.2,
        ended_at: null,
        result: null,
      };
      expect(body.pilot).toEqual(pilot);
      expect((await api.call('GET', `${path}/${body.id}`)).body.pilot).toEqual(pilot);
      expect((await submit(null)).body.pilot).toBeNull();
    },
  );

  test('of a fleet and of a schedule is part of the body, not of the source', async () => {
    const pilot = { runs: 5, then: 'continue', failure_rate: 0 } as const;
    const fleet = { agents: { tags: ['piloted'] }, input: 'Hi.', pilot };
    const { body } = await api.call('POST', '/v1/batches', fleet);
    expect(body).toMatchObject({ state: 'receiving', pilot: { ...pilot, state: 'running' } });
    const { rows } = await api.database.pool.query<{ source: object }>(
      'select source from batch where id = $1',
      [body.id.replace('job-', '')],
    );
    expect(rows[0]?.source).not.toHaveProperty('pilot');
    const schedule = { name: 'piloted', cron: '0 2 * * *', time_zone: 'UTC', body: fleet };
    expect((await api.call('POST', '/v1/schedules', schedule)).status).toBe(200);
  });

  test('that has ended shows its result in dollars and tokens', async () => {
    const { id } = (await submit({ then: 'pause' })).body;
    const result = {
      ...{ completed: 18, failed: 1, cancelled: 1, cost_nanousd: 1_500_000_000, output_tokens: 900 },
      ...{
        steps_mean: 2.5,
        steps_max: 4,
        stop_reasons: { end_turn: 18 },
        errors: [{ message: 'no', runs: 1 }],
      },
      projection: {
        cost_nanousd: { low: null, expected: 3_750_000_000, high: null },
        output_tokens: { low: 2_000, expected: 2_250, high: 2_500 },
      },
    };
    const show = async (value: object): Promise<unknown> => {
      await api.database.pool.query(
        `update batch set state = 'paused', state_reason = 'why', pilot_state = 'waiting', pilot_ended_at = now(),
           pilot_result = $2 where id = $1`,
        [id.replace('job-', ''), JSON.stringify(value)],
      );
      return (await api.call('GET', `/v1/batches/${id}`)).body.pilot;
    };
    expect(await show(result)).toMatchObject({
      ...{ state: 'waiting', ended_at: expect.any(String) as unknown },
      result: {
        ...{ completed: 18, failed: 1, cancelled: 1, cost_usd: '1.50', output_tokens: 900 },
        ...{
          steps: { mean: 2.5, max: 4 },
          stop_reasons: { end_turn: 18 },
          errors: [{ message: 'no', runs: 1 }],
        },
        projected_cost_usd: { low: null, expected: '3.75', high: null },
        projected_output_tokens: { low: 2_000, expected: 2_250, high: 2_500 },
      },
    });
    const unpriced = {
      ...result,
      cost_nanousd: null,
      projection: { ...result.projection, cost_nanousd: null },
    };
    expect(await show(unpriced)).toMatchObject({ result: { cost_usd: null, projected_cost_usd: null } });
    const resumed = await api.call('POST', `/v1/batches/${id}/resume`);
    expect(resumed.body).toMatchObject({ state: 'running', state_reason: null, pilot: { state: 'passed' } });
  });

  test.each([
    ['/pilot/then', {}],
    ['/pilot/then', { then: 'stop' }],
    ['/pilot/runs', { then: 'pause', runs: 0 }],
    ['/pilot/runs', { then: 'pause', runs: 1_001 }],
    ['/pilot/failure_rate', { then: 'pause', failure_rate: 1.1 }],
    ['/pilot/size', { then: 'pause', size: 3 }],
  ])('with an invalid %s is refused by name and stores nothing', async (path, pilot) => {
    const before = await countRows(api);
    const { status, body } = await submit(pilot);
    expect(status).toBe(422);
    expect(body.errors.map((error: { path: string }) => error.path)).toContain(path);
    expect(await countRows(api)).toEqual(before);
  });
});
