import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, UNKNOWN_UUID, untilLockIsAwaited, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const create = async (body: object) => (await api.call('POST', '/v1/blocks/', body)).body;

describe('a block', () => {
  test('is created, read, changed and deleted', async () => {
    const block = await create({ label: 'human', value: null, metadata: { a: 1 }, tags: ['t'] });
    expect(block).toEqual({
      id: expect.stringMatching(/^block-/),
      label: 'human',
      value: '',
      limit: 100_000,
      description: expect.any(String),
      metadata: { a: 1 },
      read_only: false,
      conflict_policy: 'merge',
      is_template: false,
      hidden: false,
      tags: ['t'],
      revision: 1,
      project_id: null,
      template_name: null,
      template_id: null,
      base_template_id: null,
      deployment_id: null,
      entity_id: null,
      preserve_on_migration: null,
      created_by_id: expect.stringMatching(/^user-/),
      last_updated_by_id: expect.stringMatching(/^user-/),
    });
    expect((await api.call('GET', `/v1/blocks/${block.id}`)).body).toEqual(block);
    const changed = await api.call('PATCH', `/v1/blocks/${block.id}`, {
      value: 'new',
      description: null,
      limit: 10,
    });
    expect(changed.body).toEqual({ ...block, value: 'new', limit: 10, revision: 2 });
    const deleted = await api.call('DELETE', `/v1/blocks/${block.id}`);
    expect([deleted.status, deleted.body]).toEqual([200, null]);
    expect((await api.call('GET', `/v1/blocks/${block.id}`)).status).toBe(404);
    expect((await api.call('DELETE', `/v1/blocks/${block.id}`)).status).toBe(404);
  });

  test('names an unknown field and changes nothing', async () => {
    const misspelt = await api.call('POST', '/v1/blocks/', {
      label: 'a',
      value: 'b',
      conflict_polcy: 'reject',
    });
    expect(misspelt.status).toBe(422);
    expect(misspelt.body.errors).toEqual([{ path: '/conflict_polcy', message: 'is not known here' }]);
    const agent = await createAgent(api, { memory_blocks: [{ label: 'a', value: 'b' }] });
    const path = `/v1/agents/${agent}/core-memory/blocks/a`;
    const before = (await api.call('GET', path)).body;
    for (const at of [path, `/v1/blocks/${before.id}`]) {
      const { status, body } = await api.call('PATCH', at, { vlaue: 'c' });
      expect([status, body.errors]).toEqual([422, [{ path: '/vlaue', message: 'is not known here' }]]);
    }
    expect((await api.call('GET', path)).body).toEqual(before);
  });

  test("ignores fields of Letta's clients that have no meaning here", async () => {
    const ofLetta = {
      base_template_id: null,
      deployment_id: null,
      entity_id: null,
      preserve_on_migration: true,
      project_id: null,
      template_id: null,
      template_name: null,
    };
    const block = await create({ label: 'a', value: 'b', ...ofLetta });
    expect(block).toMatchObject({ label: 'a', value: 'b', preserve_on_migration: null });
    const { body } = await api.call('PATCH', `/v1/blocks/${block.id}`, { value: 'c', ...ofLetta });
    expect(body).toMatchObject({ value: 'c', revision: 2 });
    await createAgent(api, { memory_blocks: [{ label: 'a', value: 'b', ...ofLetta }] });
  });

  test('accepts a whole answer in a create or change', async () => {
    const block = await create({ label: 'a', value: 'b', tags: ['t'] });
    const { body } = await api.call('PATCH', `/v1/blocks/${block.id}`, { ...block, value: 'c' });
    expect(body).toEqual({ ...block, value: 'c', revision: 2 });
    const copy = await create(body);
    expect(copy).toEqual({ ...body, id: copy.id, revision: 1 });
    expect(copy.id).not.toBe(block.id);
    const agent = await createAgent(api, { memory_blocks: [body] });
    const path = `/v1/agents/${agent}/core-memory/blocks/a`;
    const { body: held } = await api.call('GET', path);
    expect((await api.call('PATCH', path, { ...held, value: 'd' })).body.value).toBe('d');
  });

  test.each(['constructor', 'toString', 'valueOf', '__proto__', 'hasOwnProperty'])(
    'may have the label %s, a property of every JavaScript object',
    async (label) => {
      const block = await create({ label, value: 'x' });
      expect(block).toMatchObject({ label, description: null });
      const agent = await createAgent(api, { memory_blocks: [{ label, value: 'y' }] });
      const path = `/v1/agents/${agent}/core-memory/blocks/${label}`;
      expect((await api.call('PATCH', path, { value: 'z' })).body).toMatchObject({ label, value: 'z' });
    },
  );

  test('has the stored form of its label', async () => {
    const agent = await createAgent(api, { memory_blocks: [{ label: ' a\0b ', value: '' }], tags: ['t\0'] });
    const { body } = await api.call('GET', `/v1/agents/${agent}`);
    expect([body.blocks[0].label, body.tags]).toEqual(['ab', ['t']]);
    const twice = [
      { label: 'a', value: '' },
      { label: 'a\0', value: '' },
    ];
    const model = 'anthropic/claude-haiku-4-5';
    const answer = await api.call('POST', '/v1/agents/', { model, memory_blocks: twice });
    const plain = await api.call('POST', '/v1/agents/', { model, memory_blocks: [twice[0], twice[0]] });
    expect([answer.status, answer.body.errors]).toEqual([plain.status, plain.body.errors]);
    expect((await api.call('POST', '/v1/agents/', { model, tags: ['\0'] })).status).toBe(422);
  });

  test.each<[string, object, string]>([
    ['no label', { value: 'x' }, '/label'],
    ['an empty label', { label: ' ', value: 'x' }, '/label'],
    ['a label without storable characters', { label: ' \0 ', value: 'x' }, '/label'],
    ['a tag without storable characters', { label: 'a', value: '', tags: ['\0'] }, '/tags/0'],
    ['a value over its limit', { label: 'a', value: 'abcd', limit: 3 }, '/value'],
    ['a limit of zero', { label: 'a', value: '', limit: 0 }, '/limit'],
  ])('with %s is 422', async (_name, body, path) => {
    const answer = await api.call('POST', '/v1/blocks/', body);
    expect([answer.status, answer.body.errors[0].path]).toEqual([422, path]);
  });

  test('has a conflict policy, which changes without a revision', async () => {
    const { id } = await create({ label: 'board', value: 'x', conflict_policy: 'reject' });
    const changed = await api.call('PATCH', `/v1/blocks/${id}`, { conflict_policy: 'last_write' });
    expect(changed.body).toMatchObject({ conflict_policy: 'last_write', revision: 1 });
    const kept = await api.call('PATCH', `/v1/blocks/${id}`, { value: 'y' });
    expect(kept.body).toMatchObject({ conflict_policy: 'last_write', revision: 2 });
    const unknown = await api.call('PATCH', `/v1/blocks/${id}`, { conflict_policy: 'first_write' });
    expect([unknown.status, unknown.body.errors[0].path]).toEqual([422, '/conflict_policy']);
    const agentId = await createAgent(api, {
      memory_blocks: [{ label: 'own', value: '', conflict_policy: 'reject' }],
    });
    const { body } = await api.call('GET', `/v1/agents/${agentId}/core-memory/blocks/own`);
    expect(body.conflict_policy).toBe('reject');
  });

  test('counts characters, not UTF-16 units', async () => {
    expect((await api.call('POST', '/v1/blocks/', { label: 'a', value: '😀😀😀', limit: 3 })).status).toBe(
      200,
    );
    expect((await api.call('POST', '/v1/blocks/', { label: 'a', value: '😀😀😀', limit: 2 })).status).toBe(
      422,
    );
  });
});

describe('writing a block', () => {
  test('makes a revision only for writes that a request could show', async () => {
    const { id } = await create({ label: 'r', value: '1' });
    const revision = async (change: object) =>
      (await api.call('PATCH', `/v1/blocks/${id}`, change)).body.revision;
    expect(await revision({ value: '2' })).toBe(2);
    expect(await revision({ value: '2' })).toBe(2);
    expect(await revision({ description: 'd\ud800' })).toBe(3);
    expect(await revision({ description: 'd\ud800' })).toBe(3);
    expect(await revision({ limit: 50 })).toBe(4);
    expect(await revision({ read_only: true })).toBe(5);
    expect(await revision({ metadata: { x: 1 }, tags: ['y'], label: 's' })).toBe(5);
    const { rows } = await api.database.pool.query(
      'select revision, based_on, value from block_revision where block_id = $1 order by revision',
      [id.slice(6)],
    );
    expect(rows).toEqual([
      { revision: 1, based_on: null, value: '1' },
      { revision: 2, based_on: 1, value: '2' },
      { revision: 3, based_on: 2, value: '2' },
      { revision: 4, based_on: 3, value: '2' },
      { revision: 5, based_on: 4, value: '2' },
    ]);
  });

  test('concurrently keeps all fields: each change starts from the present state', async () => {
    const { id } = await create({ label: 'c', value: '0', description: '0' });
    await Promise.all([
      ...[1, 2, 3].map((n) => api.call('PATCH', `/v1/blocks/${id}`, { value: `v${n}` })),
      api.call('PATCH', `/v1/blocks/${id}`, { description: 'mine' }),
    ]);
    const { body } = await api.call('GET', `/v1/blocks/${id}`);
    expect(body).toMatchObject({ revision: 5, description: 'mine', value: expect.stringMatching(/^v\d$/) });
  });

  test('twenty times concurrently applies every write', async () => {
    const { id } = await create({ label: 'c', value: '0' });
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => api.call('PATCH', `/v1/blocks/${id}`, { value: `v${n}` })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
    // Each answer holds its own write, not a later write.
    expect(answers.map(({ body }) => body.value)).toEqual(Array.from({ length: 20 }, (_, n) => `v${n}`));
    expect((await api.call('GET', `/v1/blocks/${id}`)).body.revision).toBe(21);
  });

  test('concurrently keeps fields that make no revision', async () => {
    const { id } = await create({ label: 'c', value: '0' });
    await Promise.all([
      api.call('PATCH', `/v1/blocks/${id}`, { tags: ['t'] }),
      api.call('PATCH', `/v1/blocks/${id}`, { metadata: { m: 1 } }),
      api.call('PATCH', `/v1/blocks/${id}`, { hidden: true }),
      api.call('PATCH', `/v1/blocks/${id}`, { conflict_policy: 'reject' }),
      api.call('PATCH', `/v1/blocks/${id}`, { label: 'd' }),
    ]);
    expect((await api.call('GET', `/v1/blocks/${id}`)).body).toMatchObject({
      label: 'd',
      tags: ['t'],
      metadata: { m: 1 },
      hidden: true,
      conflict_policy: 'reject',
    });
  });

  test.each([
    ['its value', { value: 'y' }],
    ['its tags', { tags: ['t'] }],
  ])('of %s during a rename keeps the new label', async (_name, change) => {
    const { id } = await create({ label: 'old', value: 'x' });
    const client = await api.database.pool.connect();
    try {
      // Stands for a run that renames the block.
      await client.query('begin');
      await client.query(`update block set label = 'new' where id = $1`, [id.slice(6)]);
      const changed = api.call('PATCH', `/v1/blocks/${id}`, change);
      await untilLockIsAwaited(api);
      await client.query('commit');
      expect((await changed).body).toMatchObject({ label: 'new', ...change });
    } finally {
      client.release();
    }
  });

  test('during its deletion is 404', async () => {
    const { id } = await create({ label: 'c', value: 'x' });
    const client = await api.database.pool.connect();
    try {
      await client.query('begin');
      await client.query('update block set deleted_at = app_now() where id = $1', [id.slice(6)]);
      const changed = api.call('PATCH', `/v1/blocks/${id}`, { value: 'y' });
      await untilLockIsAwaited(api);
      await client.query('commit');
      expect((await changed).status).toBe(404);
    } finally {
      client.release();
    }
  });

  test.each([
    ['renamed', `update block set label = 'other' where id = $1`],
    ['let go', `delete from agent_block where block_id = $1`],
  ])("under an agent's label is 404 if the block is %s meanwhile", async (_case, change) => {
    const agent = await createAgent(api, { memory_blocks: [{ label: 'mine', value: 'kept' }] });
    const path = `/v1/agents/${agent}/core-memory/blocks/mine`;
    const { id } = (await api.call('GET', path)).body;
    const client = await api.database.pool.connect();
    try {
      await client.query('begin');
      await client.query('select from block where id = $1 for update', [id.slice(6)]);
      const changed = api.call('PATCH', path, { value: 'lost' });
      await untilLockIsAwaited(api);
      await client.query(change, [id.slice(6)]);
      await client.query('commit');
      expect((await changed).status).toBe(404);
      expect((await api.call('GET', `/v1/blocks/${id}`)).body).toMatchObject({ value: 'kept', revision: 1 });
    } finally {
      client.release();
    }
  });

  test('on an outdated revision is 409, which clients do not retry', async () => {
    const { id } = await create({ label: 'c', value: '0' });
    expect((await api.call('PATCH', `/v1/blocks/${id}`, { value: '1', expected_revision: 1 })).status).toBe(
      200,
    );
    const late = await api.call('PATCH', `/v1/blocks/${id}`, { value: '2', expected_revision: 1 });
    expect([late.status, late.headers['x-should-retry']]).toEqual([409, 'false']);
    expect((await api.call('GET', `/v1/blocks/${id}`)).body.value).toBe('1');
  });

  test('again after a lost answer is no conflict: the block has the content already', async () => {
    const { id } = await create({ label: 'c', value: '0', tags: ['t'] });
    const url = `/v1/blocks/${id}`;
    for (const [path, patch] of [
      [url, { value: '1', expected_revision: 1 }],
      [`${url}/revert`, { revision: 1, expected_revision: 2 }],
    ] as const) {
      const send = () => api.call(path === url ? 'PATCH' : 'POST', path, patch);
      const first = await send();
      const again = await send();
      expect([again.status, again.body]).toEqual([200, first.body]);
    }
    // A field that makes no revision counts too.
    const other = await api.call('PATCH', url, { value: '0', tags: ['u'], expected_revision: 1 });
    expect(other.status).toBe(409);
  });

  test('over the limit is 422, also if the limit shrinks', async () => {
    const { id } = await create({ label: 'c', value: 'abc', limit: 5 });
    expect((await api.call('PATCH', `/v1/blocks/${id}`, { value: 'abcdef' })).status).toBe(422);
    const shrunk = await api.call('PATCH', `/v1/blocks/${id}`, { limit: 2 });
    expect([shrunk.status, shrunk.body.errors]).toEqual([
      422,
      [{ path: '/limit', message: "must be at least 3, the number of characters of the block's value" }],
    ]);
  });

  test('with a new label renames it in every agent; a label in use is 409', async () => {
    const { id } = await create({ label: 'old', value: 'x' });
    const agent = await createAgent(api, { block_ids: [id] });
    expect((await api.call('PATCH', `/v1/blocks/${id}`, { label: 'new' })).body).toMatchObject({
      label: 'new',
      revision: 1,
    });
    expect((await api.call('GET', `/v1/agents/${agent}/core-memory/blocks/new`)).body.id).toBe(id);
    expect((await api.call('GET', `/v1/agents/${agent}/core-memory/blocks/old`)).status).toBe(404);
    const taken = await api.call('PATCH', `/v1/blocks/${id}`, { label: 'human' });
    expect(taken.status).toBe(409);
    expect(taken.body.detail).toContain(`The agent ${agent} already has a block labelled 'human'.`);
    expect(JSON.stringify(taken.body)).not.toMatch(/agent_block|constraint|key/);
  });

  test('answers 404 for an unknown block and 422 for a malformed id', async () => {
    expect((await api.call('PATCH', `/v1/blocks/block-${UNKNOWN_UUID}`, { value: 'x' })).status).toBe(404);
    expect((await api.call('PATCH', '/v1/blocks/block-1', { value: 'x' })).status).toBe(422);
  });
});

describe('listing blocks', () => {
  test('sorts oldest first, filters by label and content, and pages over deleted blocks', async () => {
    const fresh = await openApi();
    const made: { id: string }[] = [];
    for (const label of ['one', 'two', 'three']) {
      made.push((await fresh.call('POST', '/v1/blocks/', { label, value: `value of ${label}` })).body);
    }
    await fresh.call('POST', '/v1/blocks/', { label: 'template', value: '', is_template: true });
    const agent = await createAgent(fresh, { memory_blocks: [], block_ids: [made[1]!.id], hidden: true });
    const labels = async (query: string) =>
      (await fresh.call('GET', `/v1/blocks/?${query}`)).body.map((block: { label: string }) => block.label);
    expect(await labels('')).toEqual(['one', 'two', 'three']);
    expect(await labels('order=desc&limit=2')).toEqual(['three', 'two']);
    expect(await labels('label=two')).toEqual(['two']);
    expect(await labels('label_search=T')).toEqual(['two', 'three']);
    // Templates are listed only on request, and alone.
    expect(await labels('label=template')).toEqual([]);
    expect(await labels('label=template&templates_only=true')).toEqual(['template']);
    expect(await labels('value_search=of+t')).toEqual(['two', 'three']);
    expect(await labels('templates_only=false')).toEqual(['one', 'two', 'three']);
    expect(await labels('templates_only=true')).toEqual(['template']);
    expect(await labels('connected_to_agents_count_gt=0')).toEqual(['two']);
    expect(await labels('connected_to_agents_count_eq=0&connected_to_agents_count_eq=2')).toEqual([
      'one',
      'three',
    ]);
    expect(
      (await fresh.call('GET', `/v1/blocks/${made[1]!.id}/agents`)).body.map(
        (item: { id: string }) => item.id,
      ),
    ).toEqual([agent]);
    await fresh.call('DELETE', `/v1/blocks/${made[1]!.id}`);
    expect(await labels(`after=${made[1]!.id}`)).toEqual(['three']);
    expect(await labels(`before=${made[1]!.id}`)).toEqual(['one']);
    expect((await fresh.call('GET', `/v1/agents/${agent}`)).body.blocks).toEqual([]);
    await fresh.close();
  });
});

test('cuts a page of large rows and links to the next page', async () => {
  const other = await openApi();
  await createAgent(other, {
    memory_blocks: ['a', 'b', 'c'].map((label) => ({ label, value: '', limit: 20_000_000 })),
  });
  await other.database.pool.query("update block_revision set value = repeat('x', 17000000)");
  const first = await other.call('GET', '/v1/blocks');
  expect(first.body.map((block: { label: string }) => block.label)).toEqual(['a', 'b']);
  expect(first.headers['link']).toContain(`after=${first.body[1].id}`);
  const { body } = await other.call('GET', `/v1/blocks?after=${first.body[1].id}`);
  expect(body.map((block: { label: string }) => block.label)).toEqual(['c']);
  await other.close();
});

test('counts descriptions and metadata for the page size', async () => {
  const other = await openApi();
  const id = await createAgent(other, { memory_blocks: [{ label: 'a', value: '' }] });
  const block = (await other.call('GET', `/v1/agents/${id}/core-memory/blocks/a`)).body;
  for (const value of ['1', '2']) await other.call('PATCH', `/v1/blocks/${block.id}`, { value });
  await other.database.pool.query("update block_revision set description = repeat('x', 17000000)");
  const path = `/v1/blocks/${block.id}/revisions`;
  const first = await other.call('GET', path);
  expect(first.body.map(({ revision }: { revision: number }) => revision)).toEqual([3, 2]);
  expect(first.headers['link']).toContain('after=2');
  expect((await other.call('GET', `${path}?after=2`)).body).toHaveLength(1);
  await other.close();
});
