import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { longestStretchOf } from '../../../test/cpu-time.ts';
import { createAgent, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

interface Written {
  readonly job_id: string;
  readonly agent_id: string;
  readonly block_id: string;
}

/** Creates an ended batch of one run, whose calls wrote these texts to the agent's block. */
async function aWritingBatch(before: string, texts: readonly string[]): Promise<Written> {
  const agent_id = await createAgent(api, { memory_blocks: [{ label: 'notes', value: before }] });
  const agent = (await api.call('GET', `/v1/agents/${agent_id}`)).body;
  const block_id: string = agent.memory.blocks[0].id;
  const batch = await api.call('POST', '/v1/batches', { requests: [{ agent_id, input: 'go' }] });
  const job_id: string = batch.body.id;
  const job = job_id.slice(4);
  for (const [index, text] of texts.entries()) {
    await api.database.pool.query(
      `insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on, batch_id, run_id,
                                   step_number, tool_use_id, resolution)
       select $1, $2, r.project_id, $3, 100000, false, $2 - 1, r.batch_id, r.id, 1, 'toolu_1', 'clean'
         from run r where r.batch_id = $4`,
      [block_id.slice(6), index + 2, text, job],
    );
  }
  await api.database.pool.query('update block set head_revision = $2 where id = $1', [
    block_id.slice(6),
    texts.length + 1,
  ]);
  await api.database.pool.query(
    `update run set state = 'cancelled', stop_reason = 'cancelled', ended_at = app_now() where batch_id = $1`,
    [job],
  );
  await api.database.pool.query(
    `update batch set state = 'completed', completed_at = app_now() where id = $1`,
    [job],
  );
  return { job_id, agent_id, block_id };
}

const lines = (count: number, text: string): string =>
  Array.from({ length: count }, (_, index) => `${text} ${index}\n`).join('');

/** Returns the share of the request's time in its longest hold of the thread, for twenty entries. */
const heldPartOf = (url: string): Promise<number> =>
  longestStretchOf(async () => expect((await api.call('GET', url)).body).toHaveLength(20));

describe('the revisions of a block', () => {
  test('are listed newest first with their writers, and read with their text', async () => {
    const { block_id, job_id, agent_id } = await aWritingBatch('one', ['one\ntwo']);
    await api.call('PATCH', `/v1/blocks/${block_id}`, { value: 'by hand', description: 'd' });
    const { body } = await api.call('GET', `/v1/blocks/${block_id}/revisions`);
    expect(body).toMatchObject([
      { revision: 3, based_on: 2, job_id: null, agent_id: null, resolution: null, description: 'd' },
      { revision: 2, based_on: 1, job_id, agent_id, resolution: 'clean', tool_call_id: 'toolu_1' },
      { revision: 1, based_on: null },
    ]);
    expect(body[0]).not.toHaveProperty('value');
    const one = await api.call('GET', `/v1/blocks/${block_id}/revisions/2`);
    expect(one.body).toMatchObject({ revision: 2, value: 'one\ntwo' });
    expect((await api.call('GET', `/v1/blocks/${block_id}/revisions/9`)).status).toBe(404);
    expect((await api.call('GET', `/v1/blocks/${block_id}/revisions/x`)).status).toBe(422);
    expect((await api.call('GET', `/v1/blocks/block-${UNKNOWN_UUID}/revisions`)).status).toBe(404);
  });

  test('page in both directions without loss', async () => {
    const { block_id } = await aWritingBatch('0', ['1', '2', '3', '4']);
    const numbers = async (query: string) => {
      const answer = await api.call('GET', `/v1/blocks/${block_id}/revisions?limit=2&${query}`);
      return {
        page: answer.body.map((row: { revision: number }) => row.revision),
        link: answer.headers['link'],
      };
    };
    expect(await numbers('')).toMatchObject({ page: [5, 4], link: expect.stringContaining('after=4') });
    expect((await numbers('after=4')).page).toEqual([3, 2]);
    expect((await numbers('before=2')).page).toEqual([4, 3]);
    expect((await numbers('order=asc&after=2')).page).toEqual([3, 4]);
    expect((await numbers('order=asc&before=5')).page).toEqual([3, 4]);
  });

  test('are compared pairwise as a unified diff with sizes', async () => {
    const { block_id } = await aWritingBatch('a\nb\n', ['a\nB\n', 'a\nB\nc\n']);
    const diff = (query: string) => api.call('GET', `/v1/blocks/${block_id}/diff?${query}`);
    expect((await diff('from=1')).body).toEqual({
      block_id,
      label: 'notes',
      from_revision: 1,
      to_revision: 3,
      diff: '--- notes@1\n+++ notes@3\n@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n',
      chars_before: 4,
      chars_after: 6,
      lines_added: 2,
      lines_removed: 1,
      shrunk: false,
    });
    expect((await diff('from=3&to=2')).body).toMatchObject({ lines_added: 0, lines_removed: 1 });
    expect((await diff('from=2&to=2')).body.diff).toBe('');
    expect((await diff('from=1&to=9')).status).toBe(404);
    expect((await diff('')).body.errors[0].path).toBe('?from');
  });

  test('are restored as a new revision, description and limit included', async () => {
    const block = (await api.call('POST', '/v1/blocks/', { label: 'r', value: 'old', limit: 10 })).body;
    const url = `/v1/blocks/${block.id}`;
    await api.call('PATCH', url, { value: 'new, and longer', description: 'd', limit: 20 });
    const reverted = await api.call('POST', `${url}/revert`, { revision: 1 });
    expect(reverted.body).toEqual({ ...block, revision: 3 });
    expect((await api.call('POST', `${url}/revert`, { revision: 1 })).body.revision).toBe(3);
    // A reverted revision keeps its number, and an edit gets a new number.
    expect((await api.call('PATCH', url, { value: 'newest' })).body.revision).toBe(4);
    const { body: revisions } = await api.call('GET', `${url}/revisions`);
    expect(revisions.map((row: { revision: number }) => row.revision)).toEqual([4, 3, 2, 1]);
    expect((await api.call('GET', `${url}/revisions/2`)).body.value).toBe('new, and longer');
    const late = await api.call('POST', `${url}/revert`, { revision: 3, expected_revision: 2 });
    expect([late.status, late.body.code]).toEqual([409, 'conflict']);
    expect((await api.call('POST', `${url}/revert`, { revision: 9 })).status).toBe(404);
    expect((await api.call('POST', `${url}/revert`, {})).body.errors[0].path).toBe('/revision');
  });
});

describe('the memory changes of a batch', () => {
  test('are diffs with agent, block and step, and an alarm for large removals', async () => {
    const long = 'a fact\n'.repeat(100);
    const { job_id, agent_id, block_id } = await aWritingBatch(long, [`${long}more\n`, 'gone\n']);
    const changes = (query = '') => api.call('GET', `/v1/batches/${job_id}/memory-changes?${query}`);
    const { body } = await changes();
    expect(body).toMatchObject([
      {
        id: `${block_id}@2`,
        agent_id,
        block_id,
        label: 'notes',
        lines_added: 1,
        lines_removed: 0,
        shrunk: false,
      },
      {
        id: `${block_id}@3`,
        from_revision: 2,
        to_revision: 3,
        chars_before: 705,
        chars_after: 5,
        shrunk: true,
      },
    ]);
    expect(body[0].diff).toContain('+more');
    expect((await changes('shrunk=true')).body).toHaveLength(1);
    expect((await changes(`agent_id=${agent_id}&block_id=${block_id}`)).body).toHaveLength(2);
    expect((await changes(`agent_id=agent-${UNKNOWN_UUID}`)).body).toEqual([]);
    const first = await changes('limit=1');
    expect(first.headers['link']).toContain('rel="next"');
    const ids = async (query: string) =>
      (await changes(query)).body.map((change: { id: string }) => change.id);
    expect(await ids(`limit=1&after=${block_id}@2`)).toEqual([`${block_id}@3`]);
    expect(await ids(`limit=1&before=${block_id}@3`)).toEqual([`${block_id}@2`]);
    expect(await ids('order=desc')).toEqual([`${block_id}@3`, `${block_id}@2`]);
    expect((await changes('after=here')).body.errors[0].path).toBe('?after');
    expect((await api.call('GET', `/v1/batches/job-${UNKNOWN_UUID}/memory-changes`)).status).toBe(404);
    expect((await api.call('GET', `/v1/messages/batches/${job_id}/memory-changes`)).body).toEqual(body);
  });

  test('are compared with pauses for other requests', async () => {
    const texts = Array.from({ length: 20 }, (_, index) => lines(200, `rewrite ${index}`));
    const { job_id } = await aWritingBatch(lines(200, 'fact'), texts);
    expect(await heldPartOf(`/v1/batches/${job_id}/memory-changes`)).toBeLessThan(0.5);
  });

  test('are reverted, except under later edits of others unless forced', async () => {
    const { job_id, block_id } = await aWritingBatch('before', ['after']);
    await api.call('PATCH', `/v1/blocks/${block_id}`, { value: 'by hand' });
    const revert = (body?: object) => api.call('POST', `/v1/batches/${job_id}/revert`, body);
    const block = { block_id, label: 'notes' };
    expect((await revert()).body).toEqual({
      restored: [],
      deleted: [],
      forced: [],
      renamed: [],
      attached: [],
      refused: [{ ...block, reason: 'edited' }],
      passages: 0,
    });
    expect((await revert({ force: true })).body).toMatchObject({
      restored: [block],
      forced: [block],
      refused: [],
    });
    expect((await api.call('GET', `/v1/blocks/${block_id}`)).body).toMatchObject({
      value: 'before',
      revision: 4,
    });
    expect((await revert({ force: 'yes' })).body.errors[0].path).toBe('/force');
    expect((await revert({ forced: true })).status).toBe(422);
  });

  test('of an unfinished batch cannot be reverted: 409 with the next step', async () => {
    const agent_id = await createAgent(api);
    const { body: batch } = await api.call('POST', '/v1/batches', { requests: [{ agent_id, input: 'go' }] });
    const { status, body } = await api.call('POST', `/v1/batches/${batch.id}/revert`, {});
    expect([status, body.code]).toEqual([409, 'batch_running']);
  });
});

describe('the held changes of a batch under review', () => {
  /** Creates an ended batch under review that would write these texts to blocks that hold `before`. */
  async function aHoldingBatch(texts: readonly string[], before = 'before') {
    const agents: { readonly agent_id: string; readonly block_id: string }[] = [];
    for (const _text of texts) {
      const agent_id = await createAgent(api, { memory_blocks: [{ label: 'notes', value: before }] });
      const { body } = await api.call('GET', `/v1/agents/${agent_id}`);
      agents.push({ agent_id, block_id: body.memory.blocks[0].id });
    }
    const { body: batch } = await api.call('POST', '/v1/batches', {
      requests: agents.map(({ agent_id }, index) => ({
        agent_id,
        input: 'go',
        custom_id: index === 0 ? null : `request-${index}`,
      })),
      apply: 'review',
    });
    const job: string = batch.id.slice(4);
    for (const [index, text] of texts.entries()) {
      await api.database.pool.query(
        `with r as (select * from run where batch_id = $1 and ordinal = $2),
         d as (insert into block (id, project_id, label, head_revision, deleted_at, held_by_batch_id)
               select gen_random_uuid(), project_id, 'notes', 2, app_now(), batch_id from r returning id, project_id),
         w as (insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on, batch_id,
                                           run_id, step_number, tool_use_id, resolution)
               select d.id, 1, d.project_id, $5, 100000, false, null, null, null, null, null, null from d
               union all
               select d.id, 2, d.project_id, $3, 100000, false, 1, r.batch_id, r.id, 1, 'toolu_1', 'clean' from d, r)
         insert into held_change (batch_id, agent_id, block_id, project_id, draft_id, kind, base_revision, base_label, run_id,
                                  step_number, tool_use_id)
         select r.batch_id, r.agent_id, $4, r.project_id, d.id, 'revised', 1, 'notes', r.id, 1, 'toolu_1' from r, d`,
        [job, index, text, agents[index]?.block_id.slice(6), before],
      );
    }
    const end = async () => {
      await api.database.pool.query(
        `update run set state = 'cancelled', stop_reason = 'cancelled', ended_at = app_now()
          where batch_id = $1 and ended_at is null`,
        [job],
      );
      await api.database.pool.query(
        `update batch set state = 'completed', completed_at = app_now() where id = $1`,
        [job],
      );
    };
    return { job_id: batch.id as string, batch, agents, end };
  }

  test('are listed as diffs and applied when accepted, except under edits of others', async () => {
    const { job_id, batch, agents, end } = await aHoldingBatch(['one', 'two', 'three']);
    expect(batch.apply).toBe('review');
    const [first, second, third] = agents;
    const url = `/v1/batches/${job_id}/held-changes`;
    const { body } = await api.call('GET', url);
    expect(body).toHaveLength(3);
    expect(body.find((change: { agent_id: string }) => change.agent_id === first?.agent_id)).toMatchObject({
      state: 'held',
      kind: 'revised',
      block_id: first?.block_id,
      label: 'notes',
      from_revision: 1,
      chars_before: 6,
      chars_after: 3,
      diff: expect.stringContaining('-before'),
      settled_at: null,
    });
    const early = await api.call('POST', `${url}/accept`, {});
    expect([early.status, early.body.code]).toEqual([409, 'batch_running']);
    await end();
    await api.call('PATCH', `/v1/blocks/${second?.block_id}`, { value: 'by hand' });
    expect((await api.call('POST', `${url}/accept`, { agent_ids: [first?.agent_id] })).body).toEqual({
      accepted: 1,
      passages: 0,
      stale: [],
    });
    expect((await api.call('POST', `${url}/accept`)).body).toEqual({
      accepted: 1,
      passages: 0,
      stale: [{ agent_id: second?.agent_id, block_id: second?.block_id, label: 'notes', reason: 'edited' }],
    });
    expect((await api.call('POST', `${url}/reject`, { block_ids: [second?.block_id] })).body).toEqual({
      rejected: 1,
      passages: 0,
    });
    const values = await Promise.all(
      agents.map(async ({ block_id }) => (await api.call('GET', `/v1/blocks/${block_id}`)).body.value),
    );
    expect(values).toEqual(['one', 'by hand', 'three']);
    expect((await api.call('GET', `${url}?state=rejected`)).body).toHaveLength(1);
    expect((await api.call('GET', `${url}?agent_id=${third?.agent_id}`)).body).toMatchObject([
      { state: 'accepted', settled_at: expect.any(String) },
    ]);
    // Accepted changes are among the memory changes of the batch.
    expect((await api.call('GET', `/v1/batches/${job_id}/memory-changes`)).body).toHaveLength(2);
  });

  test('name their request and the end of its run, and apply even if it failed', async () => {
    const { job_id, agents, end } = await aHoldingBatch(['one', 'two', 'three', 'four']);
    const url = `/v1/batches/${job_id}/held-changes`;
    const runs = async () => {
      const { body } = await api.call('GET', url);
      return agents.map(({ agent_id }) => {
        const change = body.find((one: { agent_id: string }) => one.agent_id === agent_id);
        return [change.custom_id, change.run_state, change.stop_reason];
      });
    };
    await api.database.pool.query(
      `update run set state = d.state, stop_reason = d.stop_reason, ended_at = app_now(), started_at = app_now(),
                      first_seq = 1, last_seq = 1, error = d.error
         from (values (0, 'completed', 'max_steps', null), (1, 'failed', 'budget_exceeded', '{"code": "x"}'::json))
           as d(ordinal, state, stop_reason, error)
        where batch_id = $1 and run.ordinal = d.ordinal`,
      [job_id.slice(4)],
    );
    const ended = [
      [null, 'completed', 'max_steps'],
      ['request-1', 'failed', 'budget_exceeded'],
    ];
    expect(await runs()).toEqual([...ended, ['request-2', 'ready', null], ['request-3', 'ready', null]]);
    await end();
    const cancelled = [
      ['request-2', 'cancelled', 'cancelled'],
      ['request-3', 'cancelled', 'cancelled'],
    ];
    expect(await runs()).toEqual([...ended, ...cancelled]);
    const some = await api.call('POST', `${url}/accept`, { block_ids: [agents[0]?.block_id] });
    expect(some.body.accepted).toBe(1);
    expect((await api.call('POST', `${url}/accept`, {})).body.accepted).toBe(3);
  });

  test('are cut by the size of their descriptions too', async () => {
    const { job_id } = await aHoldingBatch(['one', 'two', 'three']);
    await api.database.pool.query(
      "update block_revision set description = repeat('x', 17000000) where batch_id = $1",
      [job_id.slice(4)],
    );
    const { body, headers } = await api.call('GET', `/v1/batches/${job_id}/held-changes`);
    expect(body).toHaveLength(2);
    expect(headers['link']).toContain(`after=${body[1].id}`);
  });

  test('are compared with pauses for other requests', async () => {
    const { job_id } = await aHoldingBatch(Array<string>(20).fill(lines(200, 'rewrite')), lines(200, 'fact'));
    expect(await heldPartOf(`/v1/batches/${job_id}/held-changes`)).toBeLessThan(0.5);
  });

  test('page in both directions and refuse unknown parameters', async () => {
    const { job_id, end } = await aHoldingBatch(['one', 'two', 'three']);
    await end();
    const url = `/v1/batches/${job_id}/held-changes`;
    const ids = async (query = '') =>
      (await api.call('GET', `${url}?${query}`)).body.map((change: { id: string }) => change.id);
    const all = await ids();
    expect(await ids('limit=1')).toEqual(all.slice(0, 1));
    expect(await ids(`limit=2&after=${all[0]}`)).toEqual(all.slice(1));
    expect(await ids(`limit=1&before=${all[2]}`)).toEqual(all.slice(1, 2));
    expect(await ids('order=desc')).toEqual(all.toReversed());
    expect((await api.call('POST', `${url}/accept`, { agents: [] })).status).toBe(422);
    expect((await api.call('POST', `${url}/accept`, { agent_ids: [] })).body.errors[0].path).toBe(
      '/agent_ids',
    );
    const unknown = `/v1/batches/job-${UNKNOWN_UUID}/held-changes`;
    expect((await api.call('GET', unknown)).status).toBe(404);
    expect((await api.call('POST', `${unknown}/reject`, {})).status).toBe(404);
  });

  test('are settled by ids of the batch only; other ids are named and settle nothing', async () => {
    const { job_id, agents, end } = await aHoldingBatch(['one', 'two', 'three']);
    await end();
    const [first, second, third] = agents;
    const other = (await aHoldingBatch(['elsewhere'])).agents[0];
    const url = `/v1/batches/${job_id}/held-changes`;
    for (const verb of ['accept', 'reject']) {
      const settle = async (filter: object) => {
        const { status, body } = await api.call('POST', `${url}/${verb}`, filter);
        return {
          status,
          code: body.code,
          paths: body.errors?.map((error: { path: string }) => error.path),
          body,
        };
      };
      const byAgent = await settle({
        agent_ids: [first?.agent_id, `agent-${UNKNOWN_UUID}`, second?.agent_id, other?.agent_id],
      });
      expect(byAgent).toMatchObject({
        status: 404,
        code: 'not_found',
        paths: ['/agent_ids/1', '/agent_ids/3'],
        body: {
          detail: `/agent_ids/1: ${job_id} has no run of agent-${UNKNOWN_UUID}. Nothing was settled. Check the id; lists show what exists.`,
        },
      });
      // A change's id is not its block's id.
      const [change] = (await api.call('GET', `${url}?block_id=${first?.block_id}`)).body;
      expect(await settle({ block_ids: [first?.block_id, change.id] })).toMatchObject({
        status: 404,
        paths: ['/block_ids/1'],
      });
      expect(await settle({ agent_ids: [other?.agent_id], block_ids: [other?.block_id] })).toMatchObject({
        status: 404,
        paths: ['/agent_ids/0', '/block_ids/0'],
      });
    }
    expect((await api.call('GET', `${url}?state=held`)).body).toHaveLength(3);

    const both = { agent_ids: [first?.agent_id], block_ids: [first?.block_id] };
    expect((await api.call('POST', `${url}/accept`, both)).body.accepted).toBe(1);
    expect((await api.call('POST', `${url}/reject`, { block_ids: [second?.block_id] })).body.rejected).toBe(
      1,
    );
    // Repeating a decision is no error.
    for (const filter of [both, { agent_ids: [first?.agent_id] }]) {
      const accept = await api.call('POST', `${url}/accept`, filter);
      expect([accept.status, accept.body.accepted]).toEqual([200, 0]);
    }
    const again = await api.call('POST', `${url}/reject`, { block_ids: [second?.block_id] });
    expect([again.status, again.body.rejected]).toEqual([200, 0]);
    // A decision stays.
    const [rejected] = (await api.call('GET', `${url}?state=rejected`)).body;
    for (const [verb, filter, path] of [
      ['accept', { block_ids: [first?.block_id, second?.block_id] }, '/block_ids/1'],
      ['accept', { agent_ids: agents.map(({ agent_id }) => agent_id) }, '/agent_ids/1'],
      ['reject', both, '/agent_ids/0'],
    ] as const) {
      const { status, body } = await api.call('POST', `${url}/${verb}`, filter);
      expect([status, body.code, body.errors[0].path]).toEqual([409, 'conflict', path]);
      if (verb === 'accept')
        expect(body.errors[0].message).toBe(
          `the change of ${second?.agent_id} to 'notes' was rejected at ${rejected.settled_at}`,
        );
    }
    expect((await api.call('GET', `${url}?state=held`)).body).toHaveLength(1);
    expect((await api.call('POST', `${url}/accept`, {})).body.accepted).toBe(1);
    expect((await api.call('GET', `/v1/blocks/${third?.block_id}`)).body.value).toBe('three');
    for (const filter of [undefined, {}, { agent_ids: null }]) {
      expect((await api.call('POST', `${url}/accept`, filter)).status).toBe(200);
      expect((await api.call('POST', `${url}/reject`, filter)).status).toBe(200);
    }
  });

  test('of agents whose runs have ended are settled before the batch has ended', async () => {
    const { job_id, agents } = await aHoldingBatch(['one', 'two', 'three']);
    const [first, second, third] = agents.map(({ agent_id }) => agent_id);
    await api.database.pool.query(
      `update run set state = 'cancelled', stop_reason = 'cancelled', ended_at = app_now()
        where batch_id = $1 and agent_id = any($2)`,
      [job_id.slice(4), [first?.slice(6), third?.slice(6)]],
    );
    const url = `/v1/batches/${job_id}/held-changes`;
    for (const verb of ['accept', 'reject']) {
      const all = await api.call('POST', `${url}/${verb}`, {});
      expect([all.status, all.body.code]).toEqual([409, 'batch_running']);
      expect(all.body.detail).toContain('agent_ids');
      const { status, body } = await api.call('POST', `${url}/${verb}`, { agent_ids: [first, second] });
      expect([status, body.errors]).toEqual([
        409,
        [{ path: '/agent_ids/1', message: `${second} has a run that has not ended` }],
      ]);
    }
    expect((await api.call('POST', `${url}/accept`, { agent_ids: [first] })).body.accepted).toBe(1);
    expect((await api.call('POST', `${url}/reject`, { agent_ids: [third] })).body.rejected).toBe(1);
    expect((await api.call('GET', `${url}?state=held`)).body).toHaveLength(1);
  });

  test('are rebased or forced as on_conflict says', async () => {
    const { job_id, agents, end } = await aHoldingBatch(['a\nb\nC'], 'a\nb\nc');
    await end();
    const url = `/v1/batches/${job_id}/held-changes/accept`;
    const block = `/v1/blocks/${agents[0]?.block_id}`;
    await api.call('PATCH', block, { value: 'a\nb\nsee' });
    expect((await api.call('POST', url, { on_conflict: 'always' })).body.errors[0].path).toBe('/on_conflict');
    for (const body of [{}, { on_conflict: 'fail' }, { on_conflict: 'rebase' }])
      expect((await api.call('POST', url, body)).body).toMatchObject({
        accepted: 0,
        stale: [{ reason: 'edited' }],
      });
    await api.call('PATCH', block, { value: 'A\nb\nc' });
    expect((await api.call('POST', url, { on_conflict: 'rebase' })).body).toMatchObject({
      accepted: 1,
      stale: [],
    });
    expect((await api.call('GET', block)).body.value).toBe('A\nb\nC');
    const forced = await aHoldingBatch(['mine'], 'before');
    await forced.end();
    await api.call('PATCH', `/v1/blocks/${forced.agents[0]?.block_id}`, { value: 'theirs' });
    const path = `/v1/batches/${forced.job_id}/held-changes/accept`;
    expect((await api.call('POST', path, { on_conflict: 'force' })).body.accepted).toBe(1);
    expect((await api.call('GET', `/v1/blocks/${forced.agents[0]?.block_id}`)).body.value).toBe('mine');
  });

  test('need a batch with apply auto or review', async () => {
    const agent_id = await createAgent(api);
    const requests = [{ agent_id, input: 'go' }];
    const odd = await api.call('POST', '/v1/batches', { requests, apply: 'never' });
    expect([odd.status, odd.body.errors[0].path]).toEqual([422, '/apply']);
    expect((await api.call('POST', '/v1/batches', { requests })).body.apply).toBe('auto');
  });
});
