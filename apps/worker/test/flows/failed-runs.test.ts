import type {} from '../../../../test/global-setup.ts';
import {
  auditInvariants,
  DEFAULT_PROJECT_ID,
  deleteAgent,
  inTransaction,
  type Database,
} from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { acceptBatch } from '../../src/flows/accept-batch/accept-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { openHouse, script, type House, type SubmittedBatch } from './house.ts';
import { openHouseApi, type ApiAnswer, type HouseApi } from './house-api.ts';

let house: House;
let db: Database;
let worker: FlowDeps;
let server: HouseApi;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  ({ db } = house.database);
  worker = house.worker();
  server = await openHouseApi(house.database.db);
});
afterEach(async () => {
  expect(await auditInvariants(db)).toEqual([]);
  await server.close();
  await house.close();
});

const api: HouseApi['call'] = (...request) => server.call(...request);
const retry = (id: string, body?: object, headers: Record<string, string> = {}): Promise<ApiAnswer> =>
  api('POST', `/v1/batches/${id}/retry`, body, headers);

/** Lets requests whose input holds `text` fail for ever, each with its own outcome. */
function fail(text: string, outcome: Record<string, unknown>): void {
  house.simulator.control.addRule({
    id: text,
    op: 'request',
    match: { contains: text },
    outcome: outcome as never,
  });
}
const refused = (message: string) => ({ type: 'errored', error_type: 'invalid_request_error', message });

interface Attempt {
  readonly custom_id: string;
  readonly batch: string;
  readonly state: string;
  readonly input: string;
  readonly definition_id: string;
}
const attemptsOf = (id: string): Promise<Attempt[]> =>
  house.rows<Attempt>(
    `select r.custom_id, 'job-' || r.batch_id as batch, r.state, r.definition_id,
            (select m.content ->> 0 from message m where m.conversation_id = r.conversation_id and m.seq = r.first_seq) as input
       from run r where r.batch_id = $1 order by r.ordinal`,
    [id.slice(4)],
  );

const WAYS = 4;
const FAILED = 300;

/** Submits 2,000 inputs, of which 300 fail in four ways, each way with five messages that differ in ids and numbers. */
async function submitMany(): Promise<string> {
  const messages = [
    (n: number) => refused(`The image img_01X${n}9Kd0aQ has ${n * 731} bytes.`),
    (n: number) => refused(`messages.${n}.content: text is empty (request req_011CQ${n}dF7z)`),
    (n: number) => refused(`Run run-0199d2a4-8f3e-7c1b-9a55-3d2f6b7c8e9${n} was too 'long'`),
    (n: number) => refused(`Run run-0199d2a4-8f3e-7c1b-9a55-3d2f6b7c8e9${n} was too 'short'`),
  ];
  for (const [way, messageOf] of messages.entries())
    for (let n = 0; n < 5; n++) fail(`way ${way} variant ${n};`, messageOf(n));
  const { body: agent } = await api('POST', '/v1/agents/', {
    model: 'anthropic/claude-haiku-4-5',
    name: 'a',
  });
  const { status, body } = await api('POST', '/v1/batches', {
    name: 'Nightly tickets',
    tags: ['tickets'],
    metadata: { team: 'support' },
    template: { agent_id: agent.id, input: '{{ text }}' },
    inputs: Array.from({ length: 2_000 }, (_, index) => ({
      custom_id: `ticket-${index}`,
      variables: {
        text:
          index % 6 === 0 && index < FAILED * 6
            ? `Ticket ${index}: way ${(index / 6) % WAYS} variant ${index % 5};`
            : `Ticket ${index}`,
      },
    })),
  });
  expect(status).toBe(200);
  return body.id;
}

describe('2,000 runs of which 300 fail in four ways', () => {
  test('are four groups; a retry of one group and one of all leave each custom_id with one last attempt', async () => {
    const first = await submitMany();
    await house.drive(worker);
    const { body: errors } = await api('GET', `/v1/batches/${first}/errors`);
    expect(errors).toMatchObject({ runs: FAILED, groups_total: WAYS });
    expect(errors.groups.map(({ runs }: { runs: number }) => runs)).toEqual([75, 75, 75, 75]);
    for (const group of errors.groups) {
      expect(group).toMatchObject({ stop_reason: 'invalid_request', retrying: 0 });
      expect(group.first_failed_at <= group.last_failed_at).toBe(true);
      expect(group.samples).toHaveLength(3);
      expect(group.samples[0].run_id).toMatch(/^run-/);
    }

    // The first group is mended and succeeds; the second still fails in one variant.
    house.simulator.control.clearRules();
    fail('variant 3;', refused('Still broken.'));
    const { error_group } = errors.groups[0];
    const { status, body: second } = await retry(first, { error_group });
    expect(status).toBe(200);
    expect(second).toMatchObject({
      state: 'receiving',
      retry_of: first,
      name: 'Nightly tickets',
      tags: ['tickets'],
      metadata: { team: 'support' },
      counts: { total: 75 },
    });
    await house.drive(worker);
    const { body: third } = await retry(first);
    expect(third.counts.total).toBe(FAILED - 75);
    await house.drive(worker);

    const before = await attemptsOf(first);
    const again = [...(await attemptsOf(second.id)), ...(await attemptsOf(third.id))];
    expect(again).toHaveLength(FAILED);
    const failedBefore = new Map(
      before.filter(({ state }) => state === 'failed').map((run) => [run.custom_id, run]),
    );
    for (const { custom_id, input, definition_id } of again)
      expect(failedBefore.get(custom_id)).toMatchObject({ input, definition_id });
    expect(new Set(again.map(({ custom_id }) => custom_id)).size).toBe(FAILED);
    // In the order of their batch.
    for (const { id } of [second, third]) {
      const numbers = (await attemptsOf(id)).map(({ custom_id }) => Number(custom_id.slice(7)));
      expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    }

    // Of those that failed again, the batch that tried them again is asked.
    expect(await retry(first)).toMatchObject({
      status: 422,
      body: { detail: expect.stringContaining('are tried again already, the last by job-') },
    });
    house.simulator.control.clearRules();
    const chain = [first, second.id, third.id];
    for (const id of [second.id, third.id]) {
      const { body: batch } = await api('GET', `/v1/batches/${id}`);
      expect(batch.counts.failed).toBeGreaterThan(0);
      const { body } = await retry(id);
      expect(body).toMatchObject({ retry_of: id, counts: { total: batch.counts.failed } });
      chain.push(body.id);
    }
    await house.drive(worker);
    const attempts = (await Promise.all(chain.map(attemptsOf))).flat();
    const last = new Map(attempts.map((run) => [run.custom_id, run]));
    expect(last.size).toBe(2_000);
    expect([...last.values()].every(({ state }) => state === 'completed')).toBe(true);
    const completed = attempts.filter(({ state }) => state === 'completed');
    expect(new Set(completed.map(({ custom_id }) => custom_id)).size).toBe(completed.length);
    expect(
      (await api('GET', `/v1/batches?retry_of=${first}`)).body.map(({ id }: { id: string }) => id),
    ).toEqual([third.id, second.id]);
  });
});

describe('a retry', () => {
  const BAD = 'a request that fails';
  const bad = (count = 3) =>
    house.submit(
      Array.from({ length: count }, (_, index) => ({ input: `${BAD} ${index}`, custom_id: `c-${index}` })),
    );
  const failing = async (): Promise<SubmittedBatch> => {
    fail(BAD, refused('No.'));
    const batch = await bad();
    await house.drive(worker);
    house.simulator.control.clearRules();
    return batch;
  };
  const wireOf = ({ id }: SubmittedBatch): string => `job-${id}`;

  test('with a key is stored once, also under a repeated request without fields', async () => {
    const batch = wireOf(await failing());
    const key = { 'idempotency-key': 'retry-1' };
    const first = await retry(batch, undefined, key);
    const second = await retry(batch, {}, key);
    expect(second.headers['idempotent-replayed']).toBe('true');
    expect(second.body.id).toBe(first.body.id);
    expect(await retry(batch, { states: ['failed'] }, key)).toMatchObject({
      status: 422,
      body: { code: 'idempotency_mismatch' },
    });
    await house.drive(worker);
  });

  test('continues behind the last portion after a crash, and makes each run once', async () => {
    const batch = wireOf(await failing());
    const { body } = await retry(batch);
    const killed = house.worker({
      settings: { agents_per_portion: 2 },
      hooks: (name) =>
        name === 'accept.after_commit' ? Promise.reject(new Error('killed')) : Promise.resolve(),
    });
    await expect(acceptBatch(killed)).rejects.toThrow('killed');
    expect(await attemptsOf(body.id)).toHaveLength(2);
    await house.bury(killed);
    await house.drive(worker);
    expect((await attemptsOf(body.id)).map(({ custom_id, state }) => [custom_id, state])).toEqual([
      ['c-0', 'completed'],
      ['c-1', 'completed'],
      ['c-2', 'completed'],
    ]);
  });

  test('that is cancelled while it is received keeps the runs made, and frees the others for another retry', async () => {
    const batch = wireOf(await failing());
    const { body: first } = await retry(batch);
    const killed = house.worker({
      settings: { agents_per_portion: 1 },
      hooks: (name) =>
        name === 'accept.after_commit' ? Promise.reject(new Error('killed')) : Promise.resolve(),
    });
    await expect(acceptBatch(killed)).rejects.toThrow('killed');
    await house.bury(killed);
    const { body: cancelled } = await api('POST', `/v1/batches/${first.id}/cancel`);
    expect(cancelled).toMatchObject({ state: 'cancelling', progress: expect.anything() });
    await house.drive(worker);
    const { body: second } = await retry(batch);
    expect(second.counts.total).toBe(2);
    await house.drive(worker);
    expect((await attemptsOf(second.id)).map(({ custom_id }) => custom_id)).toEqual(['c-1', 'c-2']);
    const { body: third } = await retry(first.id, { states: ['cancelled'] });
    await house.drive(worker);
    expect((await attemptsOf(third.id)).map(({ custom_id, state }) => [custom_id, state])).toEqual([
      ['c-0', 'completed'],
    ]);
  });

  test('of an open batch takes the runs that have ended, and leaves the others to the next', async () => {
    fail(BAD, refused('No.'));
    const { id } = await house.submit([
      { input: `${BAD} 0`, custom_id: 'c-0' },
      { input: 'Take your time.', custom_id: 'c-1', tools: [] },
    ]);
    await house.rows(`delete from run_chunk`);
    await house.rows(
      `insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
       select gen_random_uuid(), project_id, 'ready', array[id], app_now() + ordinal * interval '1 hour' from run`,
    );
    await expect(house.drive(worker, { rounds: 20 })).rejects.toThrow('have not ended');
    const wire = `job-${id}`;
    const { body } = await retry(wire, { states: ['failed', 'completed'] });
    expect(body.counts.total).toBe(1);
    const { body: runs } = await api('GET', `/v1/runs?batch_id=${wire}&state=ready`);
    expect(await retry(wire, { run_ids: [runs[0].id] })).toMatchObject({
      status: 422,
      body: {
        errors: [{ path: '/run_ids/0', message: expect.stringContaining('is ready: wait for its end') }],
      },
    });
    house.simulator.control.clearRules();
    await house.drive(worker, { hasten: true });
    expect((await api('GET', `/v1/batches/${body.id}`)).body.counts).toMatchObject({ completed: 1 });
  });

  test('continues the conversation of the agent, and takes the input of a run that never started', async () => {
    const { id, agent_ids } = await house.submit([
      { input: 'first', custom_id: 'c-0' },
      { input: 'second', custom_id: 'c-1', same_agent_as: 0 },
    ]);
    await house.cancel(id);
    await house.drive(worker);
    const { body } = await retry(`job-${id}`, { states: ['cancelled'] });
    await house.drive(worker);
    expect((await attemptsOf(body.id)).map(({ state, input }) => [state, JSON.parse(input).text])).toEqual([
      ['completed', 'first'],
      ['completed', 'second'],
    ]);
    const conversations = await house.rows(
      `select distinct conversation_id from run where batch_id = $1
       intersect select conversation_id from agent where id = $2`,
      [body.id.slice(4), agent_ids[0]],
    );
    expect(conversations).toHaveLength(1);
  });

  test('with current definitions takes the agent as it is now, and the client tools and the choice of tools of the failed run', async () => {
    fail(BAD, refused('No.'));
    const ask = { name: 'ask_user', description: 'Asks.', parameters: { type: 'object' } };
    const { body: agent } = await api('POST', '/v1/agents/', {
      model: 'anthropic/claude-haiku-4-5',
      name: 'a',
    });
    const { body: batch } = await api('POST', '/v1/batches', {
      requests: [
        {
          ...{ agent_id: agent.id, input: BAD, client_tools: [ask], conversation: 'isolated', max_steps: 3 },
          tools: { add: ['memory_rethink'], remove: ['memory_insert'] },
        },
      ],
    });
    await house.drive(worker);
    house.simulator.control.clearRules();
    expect(await api('PATCH', `/v1/agents/${agent.id}`, { system: 'Speak plainly.' })).toMatchObject({
      status: 200,
    });
    const { body: again } = await retry(batch.id, { definitions: 'current' });
    await house.drive(worker);
    const [run] = await house.rows(
      `select r.state, r.max_steps, d.system,
              array(select t ->> 'name' from json_array_elements(d.tools) t) as tools
         from run r join definition d on d.id = r.definition_id where r.batch_id = $1`,
      [again.id.slice(4)],
    );
    const tools = ['conversation_search', 'memory_replace', 'memory_rethink', 'ask_user'];
    expect(run).toEqual({ state: 'completed', max_steps: 3, system: 'Speak plainly.', tools });
  });

  test('skips a run whose agent is deleted, with the reason in the counts', async () => {
    const { id, agent_ids } = await failing();
    expect(await api('DELETE', `/v1/agents/agent-${agent_ids[1] ?? ''}`)).toMatchObject({ status: 200 });
    const { body } = await retry(`job-${id}`);
    await house.drive(worker);
    expect((await api('GET', `/v1/batches/${body.id}`)).body.counts).toMatchObject({
      total: 2,
      completed: 2,
      skipped: { agent_deleted: 1 },
    });
  });

  test('skips a run whose agent is deleted while its portion waits, and lists the agent', async () => {
    const { id, agent_ids } = await failing();
    const { body } = await retry(`job-${id}`);
    const [, gone = ''] = agent_ids;
    const accepting = await inTransaction(db, async (trx) => {
      await deleteAgent(trx, DEFAULT_PROJECT_ID, gone);
      const started = acceptBatch(worker);
      await expect
        .poll(() =>
          house.rows(
            `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
          ),
        )
        .toHaveLength(1);
      return { started };
    });
    await accepting.started;
    await house.drive(worker);
    expect((await api('GET', `/v1/batches/${body.id}`)).body.counts).toMatchObject({
      total: 2,
      completed: 2,
      skipped: { agent_deleted: 1 },
    });
    const skipped = `/v1/batches/${body.id}/skipped`;
    const agent_id = `agent-${gone}`;
    expect((await api('GET', skipped)).body).toEqual([{ agent_id, reason: 'agent_deleted' }]);
    expect((await api('GET', `${skipped}?reason=no_input`)).body).toEqual([]);
    expect((await api('GET', `${skipped}?after=${agent_id}`)).body).toEqual([]);
    expect((await api('GET', `${skipped}?after=agent-${agent_ids[0] ?? ''}`)).status).toBe(422);
  });

  test('numbers its portions by the runs read, also behind a run that is gone', async () => {
    const { id, run_ids } = await failing();
    const { body } = await retry(`job-${id}`);
    const retried = `where batch_id = '${body.id.slice(4)}' and ordinal = 0`;
    await house.rows(`update batch_retry_run set run_id = gen_random_uuid() ${retried}`);
    const portions = house.worker({ settings: { agents_per_portion: 2 } });
    await house.drive(portions);
    expect((await attemptsOf(body.id)).map(({ custom_id }) => custom_id)).toEqual(['c-1', 'c-2']);
    await house.rows(`update batch_retry_run set run_id = $1, skip_reason = 'no_input' ${retried}`, [
      run_ids[0],
    ]);
  });

  test('outlives no batch that it retries: a chain is deleted from its first batch on', async () => {
    const first = wireOf(await failing());
    const again = async (of: string): Promise<string> => {
      fail(BAD, refused('No.'));
      const { body } = await retry(of);
      await house.drive(worker);
      house.simulator.control.clearRules();
      return body.id;
    };
    const second = await again(first);
    const third = await again(second);
    const remove = (id: string) => api('DELETE', `/v1/batches/${id}`);
    for (const [id, before] of [
      [second, first],
      [third, second],
    ] as const)
      expect(await remove(id)).toMatchObject({
        status: 409,
        body: {
          code: 'conflict',
          detail: expect.stringContaining(`retries runs of ${before}. Delete ${before} first.`),
        },
      });
    expect(await retry(first)).toMatchObject({ status: 422 });
    for (const id of [first, second, third]) {
      expect(await remove(id)).toMatchObject({ status: 200 });
      expect(await auditInvariants(db)).toEqual([]);
    }
  });

  test('has the callback, its events and the time of the batch, or those of its body', async () => {
    const given = {
      callback_url: 'https://example.com/done',
      callback_events: ['paused'],
      expires_in_days: 9,
    };
    fail(BAD, refused('No.'));
    const { id } = await house.submit(
      ['c-0', 'c-1', 'c-2'].map((custom_id) => ({ input: BAD, custom_id })),
      given as object,
    );
    await house.drive(worker);
    house.simulator.control.clearRules();
    const [run_0, run_1, run_2] = (await api('GET', `/v1/runs?batch_id=job-${id}`)).body.map(
      (run: { id: string }) => run.id,
    );
    const optionsOf = async (body: object) => {
      const made = await retry(`job-${id}`, body);
      expect(made.body.progress).not.toBeNull();
      const rows = await house.rows(
        'select callback_url, callback_events, expires_in_days from batch where id = $1',
        [made.body.id.slice(4)],
      );
      return rows[0];
    };
    expect(await optionsOf({ run_ids: [run_0] })).toEqual(given);
    const own = { callback_events: ['review_ready'], expires_in_days: 2 };
    expect(await optionsOf({ run_ids: [run_1], ...own })).toEqual({ ...given, ...own });
    const none = { callback_url: null, expires_in_days: null };
    expect(await retry(`job-${id}`, { run_ids: [run_2], ...none, ...own, expires_in_days: 1 })).toMatchObject(
      {
        status: 422,
        body: {
          errors: [{ path: '/callback_events', message: expect.stringContaining('needs callback_url') }],
        },
      },
    );
    expect(await optionsOf({ run_ids: [run_2], ...none })).toEqual({ ...none, callback_events: [] });
    await house.drive(worker);
  });

  test('takes options of its own; null is none', async () => {
    const batch = wireOf(await failing());
    const { body } = await retry(batch, {
      name: 'Again',
      tags: null,
      max_cost_usd: 5,
      stop_when: { first: 2 },
      metadata: { attempt: 2 },
    });
    expect(body).toMatchObject({
      name: 'Again',
      tags: [],
      metadata: { attempt: 2 },
      stop_when: { first: 2, failure_rate: null, after: null },
      limits: { max_cost_usd: '5.00' },
    });
    await house.drive(worker);
  });

  test('of nothing, of another batch or of a wrong field is a 422, and nothing is stored', async () => {
    const { id } = await failing();
    const { id: good } = await house.submit([{ input: script({ text: 'Fine.' }) }]);
    await house.drive(worker);
    const { body: runs } = await api('GET', `/v1/runs?batch_id=job-${good}`);
    const stored = () => house.rows('select count(*)::int as n from batch');
    const before = await stored();
    const message = async (of: string, body?: object): Promise<unknown> => {
      const answer = await retry(`job-${of}`, body);
      expect(answer.status).toBe(422);
      return answer.body.detail;
    };
    expect(await message(good)).toMatch(
      /^No ended run of job-.* matches, so there is nothing to try again\./,
    );
    expect(await message(id, { ended_reasons: ['refusal'] })).toMatch(/matches, so there is nothing/);
    expect(await message(id, { error_group: '0'.repeat(32) })).toMatch(/matches, so there is nothing/);
    expect(await message(id, { error_group: 'x' })).toContain('/error_group');
    expect(await message(id, { run_ids: [runs[0].id] })).toMatch(/^\/run_ids\/0: run-.* is no run of job-/);
    expect(await message(id, { run_ids: [] })).toContain('/run_ids');
    expect(await message(id, { deadline: '2020-01-01T00:00:00Z' })).toContain('/deadline has passed');
    expect(await message(id, { hold_if: { shrinks_by: 0.5 } })).toContain('/hold_if needs apply: review');
    expect(await message(id, { requests: [] })).toContain('requests');
    expect((await retry('job-01890000-0000-7000-8000-000000000000')).status).toBe(404);
    expect(await stored()).toEqual(before);
    expect(await house.rows('select 1 from batch_retry_run')).toEqual([]);
  });

  test('under a cursor is a 422: the next rewrite is the retry', async () => {
    const { body: agent } = await api('POST', '/v1/agents/', {
      model: 'anthropic/claude-haiku-4-5',
      name: 'a',
      memory_blocks: [{ label: 'notes', value: 'n' }],
    });
    const { body: batch } = await api('POST', '/v1/batches', {
      kind: 'memory_rewrite',
      agents: { ids: [agent.id] },
      blocks: ['notes'],
    });
    await house.drive(worker);
    const answer = await retry(batch.id);
    expect(answer.status).toBe(422);
    expect(answer.body.detail).toContain('the next batch under that cursor is the retry');
  });
});

describe('failed runs of all batches', () => {
  test('are listed by the time of their end, in pages that hold each once', async () => {
    fail('a request that fails', refused('No.'));
    for (const count of [3, 4])
      await house.submit(Array.from({ length: count }, (_, n) => ({ input: `a request that fails ${n}` })));
    await house.drive(worker);
    const all = (await api('GET', '/v1/errors')).body as { run_id: string; failed_at: string }[];
    expect(all).toHaveLength(7);
    expect(all[0]).toMatchObject({ state: 'failed', stop_reason: 'invalid_request', message: 'No.' });
    const seen: string[] = [];
    for (let after = ''; ;) {
      const { body } = await api('GET', `/v1/errors?limit=2${after}`);
      if (body.length === 0) break;
      seen.push(...body.map(({ run_id }: { run_id: string }) => run_id));
      after = `&after=${seen.at(-1) ?? ''}`;
    }
    expect(seen).toEqual(all.map(({ run_id }) => run_id));
    const until = all[0]?.failed_at ?? '';
    const { body: earlier } = await api('GET', `/v1/errors?until=${encodeURIComponent(until)}`);
    expect(earlier.length).toBeLessThan(7);
    expect((await api('GET', '/v1/errors?after=run-01890000-0000-7000-8000-000000000000')).status).toBe(422);
  });
});
