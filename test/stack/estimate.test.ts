import { auditInvariants, readReadyBacklog } from '@nightshift/db';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { buildServer } from '../../apps/api/src/index.ts';
import { composeProviderBatch } from '../../apps/worker/src/flows/compose-provider-batch/compose-provider-batch.ts';
import { submitProviderBatch } from '../../apps/worker/src/flows/submit-provider-batch/submit-provider-batch.ts';
import { call, openHouse, type House } from '../../apps/worker/test/flows/house.ts';

const KEY = 'ns_key_of_the_estimate_test';
/** Bytes of a body besides its requests and the commas between them. */
const BODY_FRAME_BYTES = '{"requests":[]}'.length;

let house: House;
let app: ReturnType<typeof buildServer>;
beforeAll(async () => {
  house = await openHouse(inject('postgresUrl'));
  app = buildServer({
    db: house.database.db,
    bell: { ring: () => Promise.resolve() },
    apiKey: KEY,
    model: 'simulator',
  });
  await app.ready();
});
afterAll(async () => {
  await app.close();
  await house.close();
});

async function post(url: string, payload: object) {
  const answer = await app.inject({
    method: 'POST',
    url,
    headers: { authorization: `Bearer ${KEY}` },
    payload,
  });
  return { status: answer.statusCode, body: answer.json() };
}

async function createAgent(name: string, rest: object = {}): Promise<string> {
  const { body } = await post('/v1/agents', {
    name,
    model: 'anthropic/claude-haiku-4-5',
    memory_blocks: [{ label: 'human', value: `Name: ${name} – ünknown "quoted"\n`.repeat(3) }],
    ...rest,
  });
  return body.id;
}

/** Counts every row that a submission could write. */
async function rowCounts(): Promise<unknown> {
  const tables = [
    'batch',
    'run',
    'message',
    'definition',
    'run_chunk',
    'conversation',
    'queued_input',
    'batch_budget',
  ];
  return house.rows(
    tables
      .map((table) => `select '${table}' as name, count(*)::int as rows from ${table}`)
      .join(' union all '),
  );
}

describe('the estimate of a batch', () => {
  test('measures the first requests to the byte, and spends and stores nothing', async () => {
    // Prompts of agents with a search include counts that are not predicted to the byte.
    const tools = { include_base_tools: false, tools: ['memory_insert', 'memory_replace'] };
    const [ada, bob] = [await createAgent('Ada', tools), await createAgent('Bob', tools)];
    // Bob has a history, which his next request shows.
    await post('/v1/batches', { requests: [{ agent_id: bob, input: 'Say hello, “Bob”.' }] });
    await house.drive(house.worker());
    const body = {
      requests: [
        { agent_id: ada, input: 'Say “hello” – ä.' },
        { agent_id: bob, input: 'Go on.' },
        {
          agent_id: bob,
          messages: [{ role: 'user', content: [{ type: 'text', text: 'Alone.' }] }],
          conversation: 'isolated',
        },
        ...['assistant', 'system'].map((role) => ({
          agent_id: ada,
          messages: [
            { role, content: 'How can I help?' },
            { role: 'user', content: 'With a word. ⟦sim:fixed⟧' },
          ],
          conversation: 'isolated',
        })),
      ],
    };
    const before = await rowCounts();
    const billed = house.simulator.control.ledger().totals.requests;
    const { status, body: estimate } = await post('/v1/batches/estimate', body);
    expect(status).toBe(200);
    expect(await rowCounts()).toEqual(before);
    expect((await readReadyBacklog(house.database.db)).runs).toBe(0);
    expect(house.simulator.control.ledger().totals.requests).toBe(billed);

    await post('/v1/batches', body);
    const worker = house.worker();
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    const [sent] = await house.rows<{ bytes: number }>(
      'select body_bytes::int as bytes from provider_batch order by created_at desc, id desc limit 1',
    );
    expect(estimate.request_bytes).toBe((sent?.bytes ?? 0) - BODY_FRAME_BYTES - 4);
    expect(estimate).toMatchObject({ runs: 5, requests: { low: 5 }, unpriced_models: [], verdict: null });
    await house.drive(worker);
    expect(await house.rows(`select 1 from run where stop_reason <> 'end_turn'`)).toEqual([]);
  });

  test('its worst case is never exceeded, its low case is, and the caps are judged', async () => {
    const agents = await Promise.all(['a', 'b', 'c'].map((name) => createAgent(name)));
    const lines = [call('core_memory_append', { label: 'human', content: 'more' }), 'and that is all'];
    const body = {
      requests: agents.map((agent_id) => ({ agent_id, input: lines.join('\n'), max_steps: 3 })),
    };
    const { body: estimate } = await post('/v1/messages/batches/estimate', body);
    const verdictOf = async (caps: object): Promise<string> =>
      (await post('/v1/batches/estimate', { ...body, ...caps })).body.verdict;
    expect(await verdictOf({ max_cost_usd: 1_000 })).toBe('fits');
    expect(await verdictOf({ max_cost_usd: 0.000_001 })).toBe('cannot_start');
    expect(await verdictOf({ max_cost_usd: 1_000, max_output_tokens: 10 })).toBe('cannot_start');

    await post('/v1/batches', body);
    await house.drive(house.worker());
    const [row] = await house.rows<{ usd: number }>(
      `select (sum(s.cost_nanousd) / 1e9)::float8 as usd from step s join run r on r.id = s.run_id
        where r.batch_id = (select id from batch order by created_at desc limit 1)`,
    );
    expect(row?.usd).toBeLessThanOrEqual(Number(estimate.cost_usd.worst));
    expect(row?.usd).toBeGreaterThan(0);
    expect(Number(estimate.cost_usd.low)).toBeLessThanOrEqual(Number(estimate.cost_usd.expected));
    expect(await auditInvariants(house.database.db)).toEqual([]);
    // The next estimate is based on these runs: two steps each.
    const { body: again } = await post('/v1/batches/estimate', body);
    expect(again.requests).toMatchObject({ low: 3, expected: 6, worst: 2 * 9 });
  });

  test('for a batch that fits is kept: a narrow window, pictures and empty answers neither pause nor end it', async () => {
    const bare = { include_base_tools: false, model_settings: { max_output_tokens: 50 } };
    const [narrow, other] = [
      await createAgent('narrow', { ...bare, context_window_limit: 10_000 }),
      await createAgent('other', bare),
    ];
    const picture = (source: object) => [
      { type: 'image', source },
      { type: 'text', text: '⟦sim:fixed⟧' },
    ];
    const sent = { type: 'base64', media_type: 'image/png', data: 'aGFs'.repeat(50_000) };
    const linked = { type: 'url', url: 'https://example.com/a.png' };
    // A history with pictures too.
    await post('/v1/batches', {
      requests: [sent, linked].map((source) => ({ agent_id: other, input: picture(source) })),
    });
    await house.drive(house.worker());
    const alone = { agent_id: other, conversation: 'isolated' };
    for (const request of [
      { agent_id: narrow, input: `⟦sim:fixed⟧ ${'long '.repeat(5_000)}` },
      { agent_id: other, input: '⟦sim:fixed⟧' },
      { ...alone, input: picture(sent) },
      { ...alone, input: picture(linked) },
      { ...alone, input: '⟦sim:emptyEndTurn⟧' },
    ]) {
      const body = { requests: [request] };
      const { body: estimate } = await post('/v1/batches/estimate', body);
      const max_cost_usd = Number(estimate.cost_usd.worst);
      expect((await post('/v1/batches/estimate', { ...body, max_cost_usd })).body.verdict).toBe('fits');
      const { body: batch } = await post('/v1/batches', { ...body, max_cost_usd });
      await house.drive(house.worker());
      const [run] = await house.runsOf(batch.id.slice('job-'.length));
      expect(run?.stop_reason).toMatch(/^(end_turn|loop_detected)$/);
      expect(run?.step_number).toBeLessThanOrEqual(estimate.requests.worst);
    }
  });

  describe('a cap with room for the reservation is accepted and not reached', () => {
    /** Room for 60,000 prompt tokens beside the longest answer; a token a byte, or a full window, has no room. */
    const max_cost_usd = 0.25;
    const long = `${'Plain words only. '.repeat(6_000)} ⟦sim:fixed⟧`;
    const agentOf = async (name: string, content?: string): Promise<string> => {
      const agent_id = await createAgent(name, {
        model: 'anthropic/claude-sonnet-4-5',
        include_base_tools: false,
        tags: [name],
      });
      const items = [{ agent_id, messages: [{ role: 'user', content }] }];
      if (content !== undefined)
        expect((await post('/v1/messages/append', { items })).status).toBeLessThan(300);
      return agent_id;
    };
    /** Samples of the agent's definition, from an earlier batch. */
    const sampled = async (agent_id: string): Promise<string> => {
      await post('/v1/batches', { requests: [{ agent_id, input: '⟦sim:fixed⟧', conversation: 'isolated' }] });
      await house.rows(
        `insert into prompt_density (definition_id, project_id, samples, bytes_per_token_min)
         select id, project_id, 10, 4 from definition on conflict do nothing`,
      );
      return agent_id;
    };

    test.each<readonly [string, () => Promise<object>]>([
      [
        'of a long prompt',
        async () => ({
          requests: [
            { agent_id: await sampled(await agentOf('prompt')), input: long, conversation: 'isolated' },
          ],
        }),
      ],
      [
        'of a long conversation',
        async () => ({
          requests: [
            { agent_id: await sampled(await agentOf('history', long)), input: 'Go on. ⟦sim:fixed⟧' },
          ],
        }),
      ],
      [
        'of a picture that waits for an earlier run',
        async () => {
          const agent_id = await sampled(await agentOf('picture'));
          await post('/v1/batches', { requests: [{ agent_id, input: '⟦sim:fixed⟧' }] });
          const source = { type: 'base64', media_type: 'image/png', data: 'aGFs'.repeat(75_000) };
          const input = [
            { type: 'image', source },
            { type: 'text', text: '⟦sim:fixed⟧' },
          ];
          return { requests: [{ agent_id, input }] };
        },
      ],
    ])('%s', async (_name, bodyOf) => {
      const body = { ...(await bodyOf()), max_cost_usd };
      expect((await post('/v1/batches/estimate', body)).body.verdict).not.toBe('cannot_start');
      const { status, body: batch } = await post('/v1/batches', body);
      expect([status, batch.errors]).toEqual([200, undefined]);
      await house.drive(house.worker());
      const [run, ...others] = await house.runsOf(batch.id.slice('job-'.length));
      expect(others).toEqual([]);
      expect(run).toMatchObject({ stop_reason: 'end_turn' });
    });
  });

  test('is refused like the submission', async () => {
    const agent_id = await createAgent('d');
    const unknown = 'agent-01890000-0000-7000-8000-000000000000';
    const answers = await Promise.all([
      post('/v1/batches/estimate', { requests: [] }),
      post('/v1/batches/estimate', { requests: [{ agent_id, input: '' }] }),
      post('/v1/batches/estimate', {
        requests: [
          { agent_id, input: 'x' },
          { agent_id: unknown, input: 'x' },
        ],
      }),
      post('/v1/batches/estimate', { requests: [{ agent_id, input: 'x' }], max_cost_usd: -1 }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([400, 422, 404, 422]);
    expect(JSON.stringify(answers[2].body)).toContain('/requests/1/agent_id');
  });
});
