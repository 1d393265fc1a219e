import type {} from '../../../../test/global-setup.ts';
import { toWireId } from '@nightshift/agent-core';
import { auditInvariants, type CallOutput } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { HookPoint } from '../../src/flow-parts/deps.ts';
import { createHttpRunner } from '../../src/tools/http/http-runner.ts';
import type { ToolRequest } from '../../src/tools/runner.ts';
import { serve, startTestHost } from '../../../net-host/test/support/net-hosts.ts';
import { openHouseApi, type HouseApi } from './house-api.ts';
import { call, openHouse, type House, type SubmittedBatch } from './house.ts';
import type { ToolPort } from '../../../../test/runners-of.ts';

let house: House;
let api: HouseApi;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [
      {
        name: 'print',
        description: 'Prints.',
        input_schema: { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] },
        side_effects: 'idempotent',
        return_char_limit: 1_000,
        timeout_ms: 1_000,
      },
    ],
  });
  api = await openHouseApi(house.database.db);
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await api.close();
  await house.close();
});

const whatOf = (request: ToolRequest): string => (request.arguments as { what: string }).what;

/** A tool host whose calls have outputs, by their argument. */
function printing(outputs: Readonly<Record<string, CallOutput>>): ToolPort & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    async runCalls(calls) {
      return calls.map((request) => {
        const { call_id } = request;
        const what = whatOf(request);
        asked.push(what);
        const ended = {
          call_id,
          status: 'succeeded',
          result: 'done',
          duration_ms: 1,
          started: true,
        } as const;
        return { ...ended, ...outputs[what] };
      });
    },
  };
}

/** Submits a run whose first step makes a call for each word. */
const submit = (...words: readonly string[]): Promise<SubmittedBatch> =>
  house.submit([
    { input: words.map((what, index) => call('print', { what }, index > 0)).join('\n'), tools: ['print'] },
  ]);

const outputs = () =>
  house.rows('select call_index, attempts, answer_bytes, stdout, stderr from tool_call_output order by 1');

test('the output of a call is stored with its result, and shown with the call and in messages', async () => {
  const batch = await submit('loud', 'silent', 'odd');
  const tools = printing({
    loud: { stdout: 'x'.repeat(5_000), stderr: 'one\ntwo\n', attempts: 3, answer_bytes: 12 },
    silent: { stdout: '', stderr: '', attempts: 1, answer_bytes: 0 },
    odd: { stdout: 'a\u0000b', stderr: '\ud800<b>' },
  });
  await house.drive(house.worker({ tools }));
  const stdout = 'x'.repeat(4_096);
  const loud = { attempts: 3, answer_bytes: 12, stdout, stderr: 'one\ntwo\n' };
  const odd = { attempts: 1, answer_bytes: null, stdout: 'ab', stderr: '\ufffd<b>' };
  expect(await outputs()).toEqual([
    { call_index: 0, ...loud },
    { call_index: 2, ...odd },
  ]);

  const run = `/v1/runs/${toWireId('run', batch.run_ids[0]!)}`;
  expect((await api.call('GET', `${run}/tool-calls`)).body).toMatchObject([
    { ...loud, result: 'done' },
    { attempts: 1, answer_bytes: null, stdout: null, stderr: null },
    odd,
  ]);
  const shown = [
    { stdout: [stdout], stderr: ['one\ntwo\n'] },
    { stdout: null, stderr: null },
    { stdout: ['ab'], stderr: ['\ufffd<b>'] },
  ];
  const { body } = await api.call('GET', `${run}/messages`);
  expect(body).toContainEqual(
    expect.objectContaining({
      message_type: 'tool_return_message',
      ...shown[0],
      tool_returns: shown.map((output) => expect.objectContaining(output)),
    }),
  );
  const { messages } = (await api.call('GET', `/v1/batches/${toWireId('job', batch.id)}/messages`)).body;
  expect(messages).toContainEqual(
    expect.objectContaining({ tool_returns: shown.map((output) => expect.objectContaining(output)) }),
  );
});

test('the requests of an HTTP tool and the bytes of its answers are stored', async () => {
  let asked = 0;
  const { url } = await serve((_request, response) => {
    asked += 1;
    response.writeHead(asked < 3 ? 503 : 200, { 'retry-after': '0' }).end(`answer ${asked}`);
  });
  const host = await startTestHost();
  const runner = createHttpRunner(
    { get: () => Promise.resolve(host), close: () => host.close() },
    { allow_private: true, readSecrets: () => Promise.resolve({}) },
  );
  await submit('anything');
  const worker = house.worker();
  const source = { http: { method: 'GET', url } };
  await house.drive({
    ...worker,
    tools: {
      ...worker.tools,
      // Generous, for a busy machine.
      run: (request, options) => runner.run({ ...request, source, timeout_ms: 100_000 }, options),
    },
  });
  expect(await outputs()).toEqual([
    { call_index: 0, attempts: 3, answer_bytes: 3 * 'answer 1'.length, stdout: null, stderr: null },
  ]);
});

describe('a crash', () => {
  const output = { stdout: 'tried', attempts: 3 };

  test.each<HookPoint>([
    'tools.after_journal',
    'tools.after_calls',
    'tools.before_commit',
    'tools.after_commit',
  ])('at %s leaves each call at most one output, stored with its result', async (point) => {
    const batch = await submit('one', 'two');
    const tools = printing({ one: output, two: output });
    const reached = Promise.withResolvers<void>();
    const doomed = house.worker({
      owner: 'doomed',
      tools,
      hooks: (at) => {
        if (at !== point) return;
        reached.resolve();
        // A transaction ends with its connection.
        if (at === 'tools.before_commit') throw Object.assign(new Error('cut'), { code: '57P01' });
        return new Promise(() => undefined);
      },
    });
    const driving = house.drive(doomed, { hasten: true });
    driving.catch(() => undefined);
    await reached.promise;
    if (point === 'tools.before_commit') await expect(driving).rejects.toThrow('cut');
    await house.bury(doomed);
    const ended = await house.rows<{ count: number }>(
      `select count(*)::int as count from tool_call where ended_at is not null`,
    );
    expect(await outputs()).toHaveLength(ended[0]!.count);
    await house.drive(house.worker({ tools }), { hasten: true });
    const stored = { attempts: 3, answer_bytes: null, stdout: 'tried', stderr: null };
    expect(await outputs()).toEqual([0, 1].map((call_index) => ({ call_index, ...stored })));
    expect((await house.runsOf(batch.id)).map(({ state }) => state)).toEqual(['completed']);
  });

  test('while a slow call is under way keeps the output of the call beside it', async () => {
    const batch = await submit('quick', 'slow');
    const tools = printing({ quick: output, slow: { stdout: 'late' } });
    const doomed = house.worker({ owner: 'doomed', tools });
    void house
      .drive(
        {
          ...doomed,
          tools: {
            ...doomed.tools,
            run: (request, options) =>
              whatOf(request) === 'slow' ? new Promise(() => undefined) : doomed.tools.run(request, options),
          },
        },
        { hasten: true },
      )
      .catch(() => undefined);
    await expect.poll(outputs).toMatchObject([{ call_index: 0, ...output }]);
    await house.bury(doomed);
    await house.drive(house.worker({ tools }), { hasten: true });
    expect(tools.asked).toEqual(['quick', 'slow']);
    expect(await outputs()).toMatchObject([
      { call_index: 0, ...output },
      { call_index: 1, attempts: 1, stdout: 'late' },
    ]);
    const run = toWireId('run', batch.run_ids[0]!);
    expect((await api.call('GET', `/v1/runs/${run}/tool-calls`)).body).toMatchObject([
      { attempts: 3 },
      { attempts: 2 },
    ]);
  });
});
