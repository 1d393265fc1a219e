import type {} from '../../../../test/global-setup.ts';
import { auditInvariants, claimToolTrial, commitToolTrial, inTransaction, limitTool } from '@nightshift/db';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { findDueFlows } from '../../src/flows/find-due-flows.ts';
import { runToolTrial } from '../../src/flows/run-tool-trials/run-tool-trial.ts';
import { sweep } from '../../src/flows/sweep/sweep.ts';
import type { ToolReply, ToolRequest } from '../../src/tools/runner.ts';
import { openHouseApi, type ApiAnswer, type HouseApi } from './house-api.ts';
import { openHouse, type House } from './house.ts';

let house: House;
let api: HouseApi;
let worker: FlowDeps;
/** The calls that a tool got. */
let calls: ToolRequest[];
let reply: Partial<ToolReply>;
let agent_id: string;

const MODULE = {
  description: 'Looks.',
  input_schema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
  return_char_limit: 1_000,
  timeout_ms: 1_000,
};

beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [
      { ...MODULE, name: 'look', side_effects: 'none' },
      { ...MODULE, name: 'pay', side_effects: 'once' },
    ],
  });
  api = await openHouseApi(house.database.db);
  calls = [];
  reply = {};
  worker = house.worker({
    tools: {
      runCalls: (requests) => {
        calls.push(...requests);
        return Promise.resolve(
          requests.map(({ call_id }) => ({
            ...{ call_id, status: 'succeeded' as const, result: 'seen', duration_ms: 5, started: true },
            ...reply,
          })),
        );
      },
    },
  });
  const { body } = await api.call('POST', '/v1/agents/', {
    ...{ model: 'anthropic/claude-haiku-4-5', include_base_tools: false },
    tools: ['look', 'pay', 'memory_insert', 'finish'],
    server_tools: [{ type: 'web_search_20260318', name: 'web_search' }],
  });
  agent_id = body.id;
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await api.close();
  await house.close();
});

const run = (tool: string, body: object = { args: { n: 1 } }, headers: Record<string, string> = {}) =>
  api.call('POST', `/v1/agents/${agent_id}/tools/${tool}/run`, body, headers);
const count = async (): Promise<number> => (await house.rows('select 1 from tool_trial')).length;

/** Waits until a trial is stored. */
const untilStored = () => expect.poll(count, { interval: 5 }).toBeGreaterThan(0);

/** Waits until a statement waits for a lock. */
const untilLockIsAwaited = () =>
  expect
    .poll(
      () =>
        house.rows(
          `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        ),
      { interval: 5 },
    )
    .toHaveLength(1);

/** Starts a trial, lets a worker carry it out, and returns the answer. */
async function tryTool(tool: string): Promise<ApiAnswer> {
  const answer = run(tool);
  await untilStored();
  expect(await findDueFlows(worker)).toContain('trial');
  expect(await runToolTrial(worker)).toMatchObject({ worked: true, tool });
  return answer;
}

describe('the trial of a tool', () => {
  test('is made once by a worker, and its reply is the answer', async () => {
    reply = { stdout: 'hello\n', result: 'seen 1' };
    expect(await tryTool('look')).toMatchObject({
      status: 200,
      body: { status: 'success', func_return: 'seen 1', stdout: ['hello\n'], stderr: [], duration_ms: 5 },
    });
    expect(calls).toMatchObject([{ tool_name: 'look', arguments: { n: 1 }, agent_id, kind: 'module' }]);
    expect(await runToolTrial(worker)).toMatchObject({ worked: false });
    expect(await findDueFlows(worker)).not.toContain('trial');
  });

  test.each<[string, string, Partial<ToolReply>, object]>([
    [
      'a failure',
      'pay',
      { status: 'failed', result: 'No money.' },
      { status: 'error', func_return: 'No money.' },
    ],
    [
      'a timeout of a tool that may run again',
      'look',
      { status: 'timed_out', result: 'Too slow.' },
      { status: 'error', func_return: 'Too slow.' },
    ],
    [
      'an interrupted call that must happen once',
      'pay',
      { status: 'crashed', result: 'Killed.' },
      { status: 'error', func_return: expect.stringMatching(/may or may not have taken effect.*Killed\./) },
    ],
  ])('tells %s as an error of the tool', async (_what, tool, given, shown) => {
    reply = given;
    expect(await tryTool(tool)).toMatchObject({ status: 200, body: shown });
  });

  test('says that the worker could not start the tool', async () => {
    reply = { status: 'crashed', result: 'The host is away.', started: false, unavailable: true };
    expect(await tryTool('look')).toMatchObject({ status: 503, body: { code: 'not_ready' } });
  });

  test('is not made later when no worker took it in time', async () => {
    const answer = run('pay');
    await untilStored();
    await house.rows('update tool_trial set waits_until = app_now()');
    expect(await answer).toMatchObject({ status: 503, body: { code: 'no_worker' } });
    expect(await runToolTrial(worker)).toMatchObject({ worked: false });
    expect(calls).toEqual([]);
  });

  test('is not told as untaken while the claim of a worker commits', async () => {
    let claimed: Promise<void> | undefined;
    const told = Promise.withResolvers<void>();
    const { db } = house.database;
    const late = await openHouseApi(db, async () => {
      const holds = Promise.withResolvers<void>();
      await house.rows(`update tool_trial set waits_until = app_now() - interval '1 millisecond'`);
      claimed = inTransaction(db, async (trx) => {
        // The worker looked in time.
        await sql`select set_config('nightshift.now', (app_now() - interval '1 minute')::text, true)`.execute(
          trx,
        );
        expect(await claimToolTrial(trx, 'slow', 120_000)).not.toBeNull();
        holds.resolve();
        await told.promise;
      });
      await Promise.race([holds.promise, claimed]);
    });
    const answer = late.call('POST', `/v1/agents/${agent_id}/tools/pay/run`, { args: { n: 1 } });
    await Promise.race([answer, untilLockIsAwaited()]);
    told.resolve();
    await claimed;
    const [{ id } = { id: '' }] = await house.rows<{ id: string }>('select id from tool_trial');
    await commitToolTrial(db, id, { ok: true, result: 'paid', duration_ms: 1 });
    expect(await answer).toMatchObject({ status: 200, body: { func_return: 'paid' } });
    await late.close();
  });

  test('of a worker that died is never made again, and its outcome is unknown', async () => {
    const answer = run('pay');
    await untilStored();
    expect(await claimToolTrial(house.database.db, 'dead', 60_000)).not.toBeNull();
    expect(await runToolTrial(worker)).toMatchObject({ worked: false });
    await house.rows(`update tool_trial set replies_until = app_now() - interval '1 second'`);
    const { status, body, headers } = await answer;
    expect([status, body.code, headers['x-should-retry']]).toEqual([504, 'outcome_unknown', 'false']);
    expect(calls).toEqual([]);
  });

  test('repeated with its Idempotency-Key is the same call', async () => {
    const headers = { 'idempotency-key': 'try-1' };
    const answers = [run('pay', undefined, headers), run('pay', undefined, headers)];
    await untilStored();
    expect(await runToolTrial(worker)).toMatchObject({ worked: true });
    const later = run('pay', undefined, headers);
    for (const answer of [...answers, later])
      expect(await answer).toMatchObject({ status: 200, body: { func_return: 'seen' } });
    expect(calls).toHaveLength(1);
    expect(await count()).toBe(1);
    expect(await run('pay', { args: { n: 2 } }, headers)).toMatchObject({ status: 422 });
  });

  test('goes on when its API stops, and the same Idempotency-Key gets its reply from another', async () => {
    const headers = { 'idempotency-key': 'try-2' };
    const stopping = await openHouseApi(house.database.db);
    const path = `/v1/agents/${agent_id}/tools/pay/run`;
    const answer = stopping.call('POST', path, { args: { n: 1 } }, headers);
    await untilStored();
    expect(await claimToolTrial(house.database.db, 'busy', 60_000)).not.toBeNull();
    await stopping.close();
    expect(await answer).toMatchObject({ status: 503, body: { code: 'not_ready' } });
    const [{ id } = { id: '' }] = await house.rows<{ id: string }>('select id from tool_trial');
    await commitToolTrial(house.database.db, id, { ok: true, result: 'paid', duration_ms: 1 });
    expect(await run('pay', undefined, headers)).toMatchObject({
      status: 200,
      body: { func_return: 'paid' },
    });
  });

  test('that a worker could not start is made when its Idempotency-Key comes again', async () => {
    const headers = { 'idempotency-key': 'try-3' };
    reply = { status: 'crashed', result: 'The host is away.', started: false, unavailable: true };
    const refused = run('pay', undefined, headers);
    await untilStored();
    await runToolTrial(worker);
    expect(await refused).toMatchObject({ status: 503, body: { code: 'not_ready' } });
    reply = {};
    const answer = run('pay', undefined, headers);
    await expect.poll(() => findDueFlows(worker), { interval: 5 }).toContain('trial');
    await runToolTrial(worker);
    expect(await answer).toMatchObject({ status: 200, body: { func_return: 'seen' } });
    expect(await count()).toBe(1);
  });

  test('goes on waiting for the other caller with its Idempotency-Key when one leaves', async () => {
    const headers = { 'idempotency-key': 'try-4' };
    let rings = 0;
    const ring = () => Promise.resolve(void (rings += 1));
    const apis = [await openHouseApi(house.database.db, ring), await openHouseApi(house.database.db, ring)];
    const path = `/v1/agents/${agent_id}/tools/pay/run`;
    const [left, stays] = apis.map(({ call }) => call('POST', path, { args: { n: 1 } }, headers));
    await expect.poll(() => rings, { interval: 5 }).toBe(2);
    await apis[0]?.close();
    expect(await left).toMatchObject({ status: 503, body: { code: 'not_ready' } });
    expect(await runToolTrial(worker)).toMatchObject({ worked: true });
    expect(await stays).toMatchObject({ status: 200, body: { func_return: 'seen' } });
    await apis[1]?.close();
  });

  test('without an Idempotency-Key is taken back when its API stops before a worker took it', async () => {
    const stopping = await openHouseApi(house.database.db);
    const answer = stopping.call('POST', `/v1/agents/${agent_id}/tools/pay/run`, { args: { n: 1 } });
    await untilStored();
    await stopping.close();
    expect(await answer).toMatchObject({ status: 503, body: { code: 'no_worker' } });
    expect(await runToolTrial(worker)).toMatchObject({ worked: false });
  });

  test('is forgotten after a day', async () => {
    await tryTool('look');
    await sweep(worker);
    expect(await count()).toBe(1);
    await house.rows(`update tool_trial set created_at = app_now() - interval '26 hours'`);
    expect(await findDueFlows(worker)).toContain('sweep');
    await sweep(worker);
    expect(await count()).toBe(0);
  });
});

describe('trials keep the limits of their tool', () => {
  test.each([
    ['and a worker learns them with its first trial', false],
    ['and a worker that knows them asks for a place', true],
  ])('%s', async (_what, isKnown) => {
    const [look] = await house.rows<{ id: string }>(`select id from tool where name = 'look'`);
    await inTransaction(house.database.db, (trx) =>
      limitTool(trx, look!.id, { concurrency: 1, rate_per_minute: null }),
    );
    const ends: (() => void)[] = [];
    const workers = ['a', 'b'].map((owner) =>
      house.worker({
        owner,
        tools: {
          runCalls: async (requests) => {
            await new Promise<void>((resolve) => ends.push(resolve));
            return requests.map(({ call_id }) => ({
              ...{ call_id, status: 'succeeded' as const, result: 'seen', duration_ms: 5, started: true },
            }));
          },
        },
      }),
    );
    if (isKnown) await Promise.all(workers.map(({ grantKeeper }) => grantKeeper.refresh()));
    const answers = [run('look'), run('look')];
    await expect.poll(count, { interval: 5 }).toBe(2);
    const working = workers.map((each) => runToolTrial(each));
    const asked = () =>
      house.rows('select sum(under_way)::int as under_way, sum(waiting)::int as waiting from tool_grant');
    await expect.poll(asked, { interval: 5 }).toEqual([{ under_way: 1, waiting: 1 }]);
    expect(ends).toHaveLength(1);
    ends[0]?.();
    await expect.poll(() => ends.length, { interval: 5 }).toBe(2);
    ends[1]?.();
    for (const answer of answers) expect(await answer).toMatchObject({ status: 200 });
    await Promise.all(working);
    await expect.poll(() => house.rows('select 1 from tool_grant'), { interval: 5 }).toEqual([]);
  });
});

describe('a trial is refused, and nothing is stored,', () => {
  test.each<[string, string, object, number, string]>([
    ['for arguments that do not fit', 'look', { args: { n: 'one' } }, 422, '/args'],
    ['without arguments that are required', 'look', {}, 422, '/args'],
    ['for a tool that works within a run', 'memory_insert', {}, 422, 'tool_name'],
    ['for the tool that ends a run', 'finish', {}, 422, 'tool_name'],
    ['for a server tool', 'web_search', {}, 422, 'tool_name'],
    ['for an unknown field', 'look', { arguments: {} }, 422, '/arguments'],
  ])('%s', async (_what, tool, body, status, path) => {
    const answer = await run(tool, body);
    expect([answer.status, answer.body.errors?.[0]?.path]).toEqual([status, path]);
    expect(await count()).toBe(0);
  });

  test('for a tool that the agent lacks, and for one whose calls need an approval', async () => {
    expect(await run('nothing')).toMatchObject({ status: 404 });
    await api.call('PATCH', `/v1/agents/${agent_id}/tools/approval/look`, { requires_approval: true });
    const answer = await run('look');
    expect([answer.status, answer.body.errors[0].path]).toEqual([422, 'tool_name']);
    expect(await count()).toBe(0);
  });
});
