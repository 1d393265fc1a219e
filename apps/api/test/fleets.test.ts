import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
let ann = '';
let bob = '';
beforeAll(async () => {
  api = await openApi();
  ann = await createAgent(api, { name: 'Ann', tags: ['customer', 'eu'] });
  bob = await createAgent(api, { name: 'Bob', tags: ['customer'] });
  await createAgent(api, { name: 'Hidden', tags: ['customer'], hidden: true });
});
afterAll(() => api.close());

const submit = (body: object, headers: Record<string, string> = {}) =>
  api.call('POST', '/v1/batches', { agents: { tags: ['customer'] }, input: 'Hi.', ...body }, headers);

async function chosenBy(agents: object): Promise<string[]> {
  const { status, body } = await submit({ agents });
  expect(status).toBe(200);
  const { rows } = await api.database.pool.query<{ agent_id: string }>(
    'select agent_id from batch_agent where batch_id = $1 order by ordinal',
    [body.id.replace('job-', '')],
  );
  return rows.map((row) => `agent-${row.agent_id}`);
}

describe('a fleet', () => {
  test('is stored as receiving with its agents, and its flow is rung', async () => {
    const before = api.signals.length;
    const { status, body } = await submit({ metadata: { night: 1 }, max_cost_usd: 2 });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      ...{ status: 'created', state: 'receiving', metadata: { night: 1 } },
      counts: { total: 2, accepted: 0, skipped: {}, in_progress: 0 },
      limits: { max_cost_usd: '2.00' },
    });
    expect(api.signals.slice(before)).toEqual([{ kind: 'accept', id: body.id.replace('job-', '') }]);
    expect((await api.call('GET', `/v1/batches/${body.id}/skipped`)).body).toEqual([]);
  });

  test.each([
    ['all agents that are not hidden', {}, () => [ann, bob]],
    ['a tag', { tags: ['eu'] }, () => [ann]],
    ['any tag', { tags: ['eu', 'customer'] }, () => [ann, bob]],
    ['all tags', { tags: ['eu', 'customer'], match_all_tags: true }, () => [ann]],
    ['part of the name', { query_text: 'bo' }, () => [bob]],
    ['a limit', { limit: 1 }, () => [ann]],
  ])('selects by %s', async (_name, agents, expected) => {
    expect(await chosenBy(agents)).toEqual(expected());
  });

  test('selects by ids', async () => {
    expect(await chosenBy({ ids: [bob, ann] })).toEqual([ann, bob]);
  });

  test('is stored once under an idempotency key', async () => {
    const headers = { 'idempotency-key': 'fleet-1' };
    const first = await submit({}, headers);
    const second = await submit({}, headers);
    expect([second.body.id, second.headers['idempotent-replayed']]).toEqual([first.body.id, 'true']);
  });

  test('without a match is refused, unless allow_empty', async () => {
    const none = { agents: { tags: ['nothing'] } };
    expect((await submit(none)).body).toMatchObject({
      code: 'validation_failed',
      errors: [{ path: '/agents' }],
    });
    const { status, body } = await submit({ ...none, allow_empty: true });
    expect([status, body.counts.total]).toEqual([200, 0]);
  });

  test.each([
    ['an unknown agent', { agents: { ids: [`agent-${UNKNOWN_UUID}`] } }, '/agents/ids/0'],
    ['no input', { input: null }, '/input'],
    ['a broken template', { input: '{% if %}' }, '/input'],
    ['an unknown variable', { input: '{{ customer }}' }, '/input'],
    ['an unknown property', { input: '{{ agent.age }}' }, '/input'],
    ['an unknown filter', { input: '{{ agent.name | shout }}' }, '/input'],
    ['a label that no block has', { input: '{{ blocks.nowhere }}' }, '/input'],
    ['new messages without a cursor', { input: '{{ new_messages_text }}' }, '/input'],
    [
      'a number of new messages without a cursor',
      { agents: { min_new_messages: 2 } },
      '/agents/min_new_messages',
    ],
    ["a cursor in the agents' conversations", { cursor: 'n', conversation: 'agent' }, '/conversation'],
    ['requests beside it', { requests: [] }, '/requests'],
    ['fields of a rewrite', { blocks: ['a'] }, '/blocks'],
    ['a rewrite without blocks', { kind: 'memory_rewrite', input: null }, '/blocks'],
    ['a rewrite that names a label twice', { kind: 'memory_rewrite', blocks: ['a', 'a'] }, '/blocks'],
    ['a rewrite with an input', { kind: 'memory_rewrite', blocks: ['a'] }, '/input'],
    [
      'a rewrite of a label that no block has',
      { kind: 'memory_rewrite', blocks: ['zz'], input: null },
      '/blocks/0',
    ],
    ['hold_if without review', { hold_if: { shrinks_by: 0.5 } }, '/hold_if'],
    ['a passed deadline', { deadline: '2020-01-01T00:00:00Z' }, '/deadline'],
    [
      'a broken tool schema',
      { client_tools: [{ name: 'a', parameters: { type: 'strin' } }] },
      '/client_tools/0/parameters',
    ],
    ['an unknown model', { model: 'anthropic/unheard' }, '/model'],
    ['a model that is no handle', { model: 'haiku' }, '/model'],
  ])('refuses %s, naming the field', async (_name, body, path) => {
    const { rows: before } = await api.database.pool.query('select count(*) from batch');
    const answer = await submit(body);
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.body.errors?.map((error: { path: string }) => error.path)).toContain(path);
    expect((await api.database.pool.query('select count(*) from batch')).rows).toEqual(before);
  });

  test.each(['input', 'cursor', 'model', 'kind', 'allow_empty'])('%s alone is refused', async (field) => {
    const value = field === 'kind' ? 'fleet' : field === 'allow_empty' ? true : 'x';
    const answer = await api.call('POST', '/v1/batches', {
      requests: [{ agent_id: ann, input: 'x' }],
      [field]: value,
    });
    expect(answer.body.errors?.[0]?.path).toBe(`/${field}`);
  });
});

test('a fleet with a cap without room for one request is refused with the smallest sensible one', async () => {
  const body = { agents: { tags: ['customer'] }, input: 'Hi.' };
  const refused = await api.call('POST', '/v1/batches', { ...body, max_cost_usd: 0.001 });
  expect(refused.status).toBe(422);
  const message = expect.stringMatching(
    /^the smallest sensible cap for this batch is about \$0\.\d/,
  ) as string;
  expect(refused.body.errors).toEqual([{ path: '/max_cost_usd', message }]);
  expect((await api.call('POST', '/v1/batches', { ...body, max_cost_usd: 5 })).status).toBe(200);
});

test('a fleet with a cap with room for a single agent of many is accepted', async () => {
  const system = 'Long. '.repeat(17_000);
  const submitAll = () =>
    api.call('POST', '/v1/batches', { agents: { tags: ['many'] }, input: 'Hi.', max_cost_usd: 0.06 });
  const create = (rest: object) => createAgent(api, { tags: ['many'], ...rest });
  const small = [];
  for (let index = 0; index < 75; index++) {
    // A sample of two thirds leaves out the third agent.
    if (index === 2) small.push(await create({}));
    else await create({ system });
  }
  expect((await submitAll()).status).toBe(200);
  for (const id of small) await api.call('DELETE', `/v1/agents/${id}`);
  expect((await submitAll()).status).toBe(422);
});

describe('the estimate of a fleet', () => {
  const estimate = (body: object) =>
    api.call('POST', '/v1/batches/estimate', { agents: { tags: ['customer'] }, input: 'Hi.', ...body });

  test('counts its agents and skips, names the first, and stores nothing', async () => {
    const { rows: before } = await api.database.pool.query('select count(*) from batch');
    const { status, body } = await estimate({ input: '{{ agent.metadata.plan }}' });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      runs: 0,
      fleet: {
        ...{ agents: 2, first_agent_ids: [ann, bob], measured_agents: 2 },
        skipped: { unusable_input: 2 },
      },
    });
    expect((await api.database.pool.query('select count(*) from batch')).rows).toEqual(before);
  });

  test('costs what the same requests cost', async () => {
    const fleet = await estimate({ conversation: 'agent' });
    const requests = [ann, bob].map((agent_id) => ({ agent_id, input: 'Hi.' }));
    const same = await api.call('POST', '/v1/batches/estimate', { requests });
    expect(same.body.fleet).toBeNull();
    expect({ ...fleet.body, fleet: null }).toEqual(same.body);
  });

  test('refuses the same mistakes', async () => {
    expect((await estimate({ agents: { tags: ['custmer'] } })).body.errors?.[0]?.path).toBe('/agents');
    expect((await estimate({ input: '{{ nothing }}' })).body.errors?.[0]?.path).toBe('/input');
  });
});
