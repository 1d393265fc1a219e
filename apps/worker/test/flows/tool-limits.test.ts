import { limitTool, inTransaction, auditInvariants, type ModuleTool } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { runToolCalls } from '../../src/flows/run-tool-calls/run-tool-calls.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { createPump } from '../../src/queues/pump.ts';
import { QUICK_TOOLS_POLICY_DEFAULT } from '../../src/flow-parts/calls/quick-tools.ts';
import type { FlowDeps, FlowReport } from '../../src/flow-parts/deps.ts';
import type { ToolRunners } from '../../src/tools/runner.ts';
import { answering, call, openHouse, script, type House, type SubmittedBatch } from './house.ts';

const tool = (name: string, side_effects: ModuleTool['side_effects']): ModuleTool => ({
  name,
  description: 'Asks a foreign system.',
  input_schema: { type: 'object' },
  side_effects,
  return_char_limit: 100,
  timeout_ms: 600_000,
});

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [tool('fetch', 'none'), tool('charge', 'once'), tool('other', 'none')],
  });
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

async function limit(
  name: string,
  limits: { concurrency?: number; rate_per_minute?: number },
): Promise<void> {
  const [row] = await house.rows<{ id: string }>('select id from tool where name = $1', [name]);
  const { concurrency = null, rate_per_minute = null } = limits;
  await inTransaction(house.database.db, (trx) => limitTool(trx, row!.id, { concurrency, rate_per_minute }));
}

const submitCalls = (names: readonly string[]): Promise<SubmittedBatch> =>
  house.submit(
    names.map((name, index) => ({
      input: script({ tool: name, args: { index } }, { text: 'Done.' }),
      tools: [name],
    })),
  );

/** Takes the batch to its calls: one chunk for each `chunk_lines` runs. */
async function untilActing(chunk_lines = 50): Promise<void> {
  const worker = house.worker({ settings: { chunk_lines } });
  for (const flow of [composeProviderBatch, submitProviderBatch]) await flow(worker);
  await expect
    .poll(async () => {
      await house.hasten();
      await pollProviderBatches(worker);
      await ingestResults(worker);
      return house.rows(`select 1 from run where state = 'acting' limit 1`);
    })
    .toHaveLength(1);
  while ((await ingestResults(worker)).worked);
}

/** A foreign system that counts the calls in it, and lets them go when it is told. */
function foreignSystem() {
  const inside = new Map<() => void, string>();
  const counts = { now: 0, max: 0, total: 0 };
  const of = (deps: FlowDeps): FlowDeps => {
    const tools: ToolRunners = {
      ...deps.tools,
      run: ({ call_id, tool_name }) =>
        new Promise((resolve) => {
          counts.now += 1;
          counts.total += 1;
          counts.max = Math.max(counts.max, counts.now);
          inside.set(() => {
            counts.now -= 1;
            resolve({ call_id, status: 'succeeded', result: 'done', duration_ms: 1, started: true });
          }, tool_name);
        }),
    };
    return { ...deps, tools };
  };
  const letGo = (count = Infinity): void => {
    for (const end of [...inside.keys()].slice(0, count)) {
      inside.delete(end);
      end();
    }
  };
  return { of, letGo, counts, names: () => [...inside.values()] };
}

const acting = async (): Promise<number> =>
  (await house.rows<{ count: number }>(`select count(*)::int as count from run where state = 'acting'`))[0]!
    .count;

test('two workers never have more calls under way than the limit, and use it whole', async () => {
  await limit('fetch', { concurrency: 5 });
  await submitCalls(Array<string>(24).fill('fetch'));
  await untilActing(12);
  const system = foreignSystem();
  const workers = ['a', 'b'].map((owner) => system.of(house.worker({ owner })));
  const working = Promise.all(workers.map((worker) => runToolCalls(worker)));
  await expect.poll(() => system.counts.now).toBe(5);
  await expect
    .poll(
      () => {
        expect(system.counts.now).toBeLessThanOrEqual(5);
        system.letGo(2);
        return acting();
      },
      { interval: 10, timeout: 30_000 },
    )
    .toBe(0);
  expect((await working).map(({ calls }) => calls)).toEqual([12, 12]);
  expect(system.counts).toEqual({ now: 0, max: 5, total: 24 });
  await expect.poll(() => house.rows('select * from tool_grant')).toEqual([]);
});

test('the places of a killed worker come back when its grant lapses, and no earlier', async () => {
  await limit('charge', { concurrency: 5 });
  const batch = await submitCalls(Array<string>(14).fill('charge'));
  await untilActing(7);
  const lost = foreignSystem();
  const doomed = lost.of(house.worker({ owner: 'doomed' }));
  void runToolCalls(doomed).catch(() => undefined);
  await expect.poll(() => lost.counts.now).toBe(5);
  await house.bury(doomed);

  const system = foreignSystem();
  const heir = system.of(house.worker({ owner: 'heir' }));
  const working = [runToolCalls(heir), runToolCalls(heir)];
  const waiting = () => house.rows(`select waiting, places from tool_grant where owner = 'heir'`);
  // Five calls of the killed worker are in doubt; the others wait.
  await expect.poll(waiting).toEqual([{ waiting: 9, places: 0 }]);
  expect(system.counts.total).toBe(0);
  await house.rows(
    `update tool_grant set granted_until = app_now() - interval '1 millisecond' where owner = 'doomed'`,
  );
  await expect.poll(() => system.counts.now).toBe(5);
  await expect
    .poll(() => {
      system.letGo();
      return acting();
    })
    .toBe(0);
  await Promise.all(working);
  expect(system.counts).toMatchObject({ max: 5, total: 9 });
  const states = await house.rows<{ state: string; count: number }>(
    `select state, count(*)::int as count from tool_call group by state order by state`,
  );
  expect(states).toEqual([
    { state: 'succeeded', count: 9 },
    { state: 'unknown', count: 5 },
  ]);
  const [counted] = await house.rows(
    `select sum(ended_tool_calls)::int as ended, sum(unknown_tool_calls)::int as unknown from batch_tally where batch_id = $1`,
    [batch.id],
  );
  expect(counted).toEqual({ ended: 14, unknown: 5 });
});

test('a limit set while calls wait holds for them', async () => {
  await limit('fetch', { concurrency: 3 });
  await submitCalls(Array<string>(8).fill('fetch'));
  await untilActing();
  const system = foreignSystem();
  const working = runToolCalls(system.of(house.worker()));
  await expect.poll(() => system.counts.now).toBe(3);
  await limit('fetch', { concurrency: 1 });
  const [limited] = await house.rows<{ at: Date }>('select app_now() as at');
  const isKnown = `select granted_until - interval '30 seconds' > $1::timestamptz as is_known from tool_grant`;
  await expect.poll(() => house.rows(isKnown, [limited!.at])).toEqual([{ is_known: true }]);
  system.letGo(2);
  await expect
    .poll(() => house.rows('select places, waiting from tool_grant'))
    .toEqual([{ places: 1, waiting: 5 }]);
  expect(system.counts.total).toBe(3);
  await limit('fetch', {});
  await expect.poll(() => system.counts.now).toBe(6);
  system.letGo();
  await working;
});

test('a tool at its limit holds up no other tool', async () => {
  await limit('fetch', { concurrency: 1 });
  await submitCalls([...Array<string>(40).fill('fetch'), ...Array<string>(10).fill('other')]);
  await untilActing(10);
  const system = foreignSystem();
  const worker = system.of(house.worker());
  const reports: FlowReport[] = [];
  const log = {
    report: (report: FlowReport) => void reports.push(report),
    failure: (_kind: string, error: unknown) => expect.unreachable(String(error)),
  };
  const pump = createPump('tools', () => runToolCalls(worker), log, 8);
  const othersUnderWay = (): number => {
    pump.kick();
    return system.names().filter((name) => name === 'other').length;
  };
  await expect.poll(othersUnderWay).toBe(10);
  expect(system.names().filter((name) => name === 'fetch')).toHaveLength(1);
  // Chunks whose calls only wait leave, and come back later.
  system.letGo();
  const left = (): number => {
    pump.kick();
    return reports.filter(({ outcome }) => outcome === 'given_back').length;
  };
  await expect.poll(left).toBeGreaterThan(0);
  await limit('fetch', {});
  await expect
    .poll(
      () => {
        system.letGo();
        pump.kick();
        return acting();
      },
      { timeout: 20_000 },
    )
    .toBe(0);
  await pump.stop();
});

test('a worker that takes no more work leaves waiting calls to others at once', async () => {
  await limit('fetch', { concurrency: 1 });
  await submitCalls(Array<string>(3).fill('fetch'));
  await untilActing();
  const system = foreignSystem();
  const worker = system.of(house.worker());
  const working = runToolCalls(worker);
  await expect.poll(() => system.counts.now).toBe(1);
  worker.tools.places.grants.close();
  system.letGo();
  expect(await working).toMatchObject({ outcome: 'given_back', ended: 0 });
  expect(
    await house.rows(`select 1 from run_chunk where kind = 'tools' and next_due_at <= app_now()`),
  ).toHaveLength(1);
  expect(await acting()).toBe(2);
  await worker.grantKeeper.close();
  expect(await house.rows('select * from tool_grant')).toEqual([]);
});

test('a worker that leaves while a call waits for a limit puts no refused call in doubt', async () => {
  await limit('fetch', { concurrency: 1 });
  await house.submit([
    { input: call('fetch', {}), tools: ['fetch'] },
    { input: [call('charge', {}), call('fetch', {}, true)].join('\n'), tools: ['charge', 'fetch'] },
  ]);
  await untilActing();
  const system = foreignSystem();
  const worker = system.of(house.worker());
  const refused = Promise.withResolvers<void>();
  const tools: ToolRunners = {
    ...worker.tools,
    poolOf: (kind, name) => ({ ...worker.tools.poolOf(kind, name), name }),
    run(request, options) {
      if (request.tool_name !== 'charge') return worker.tools.run(request, options);
      refused.resolve();
      const { call_id } = request;
      const reply = { call_id, status: 'crashed', result: 'The host is away.', duration_ms: 0 } as const;
      return Promise.resolve({ ...reply, started: false, unavailable: true });
    },
  };
  const working = runToolCalls({ ...worker, tools });
  await refused.promise;
  await expect.poll(() => system.counts.now).toBe(1);
  worker.tools.places.grants.close();
  system.letGo();
  expect(await working).toMatchObject({ outcome: 'given_back' });
  expect(await house.rows(`select state from tool_call where tool_name = 'charge'`)).toEqual([
    { state: 'pending' },
  ]);
  await worker.grantKeeper.close();
});

test('calls that wait for a limit are dropped when their batch is cancelled', async () => {
  await limit('fetch', { rate_per_minute: 1 });
  const batch = await submitCalls(Array<string>(4).fill('fetch'));
  await untilActing();
  const system = foreignSystem();
  const working = runToolCalls(system.of(house.worker()));
  await expect.poll(() => system.counts.total).toBe(1);
  await house.cancel(batch.id);
  system.letGo();
  await working;
  expect(system.counts.total).toBe(1);
  expect((await house.runsOf(batch.id)).map(({ state }) => state)).toEqual(
    Array<string>(4).fill('cancelled'),
  );
});

test('the rate of a tool holds over two workers', async () => {
  await limit('fetch', { rate_per_minute: 60 });
  await submitCalls(Array<string>(12).fill('fetch'));
  await untilActing(6);
  const starts: number[] = [];
  const workers = ['a', 'b'].map((owner) =>
    house.worker({
      owner,
      tools: answering(() => {
        starts.push(performance.now());
        return 'done';
      }),
    }),
  );
  await Promise.all(workers.map((worker) => runToolCalls(worker)));
  expect(starts).toHaveLength(12);
  // Three at once, and nine more at one a second.
  expect(starts.at(-1)! - starts[0]!).toBeGreaterThan(8_000);
}, 30_000);

test('a limited tool is not called before its answer is stored', async () => {
  const quickTools = { ...QUICK_TOOLS_POLICY_DEFAULT, calls_min: 1 };
  const tools = answering();
  await limit('fetch', { concurrency: 5 });
  await submitCalls(['fetch', 'fetch', 'other', 'other']);
  const worker = house.worker({ tools, quickTools });
  for (const flow of [composeProviderBatch, submitProviderBatch, pollProviderBatches, ingestResults])
    await flow(worker);
  expect(new Set(tools.asked.map(({ tool_name }) => tool_name))).toEqual(new Set(['other']));
  expect(await acting()).toBe(2);
  await runToolCalls(worker);
  expect(tools.asked.filter(({ tool_name }) => tool_name === 'fetch')).toHaveLength(2);
});

test('a worker asks nothing for tools without limits, and once for all calls of limited ones', async () => {
  await submitCalls(Array<string>(20).fill('other'));
  await untilActing();
  await runToolCalls(house.worker({ tools: answering() }));
  expect(await house.rows('select * from tool_grant')).toEqual([]);
  await limit('other', { rate_per_minute: 400 });
  await submitCalls(Array<string>(20).fill('other'));
  await untilActing();
  const tools = answering();
  expect(await runToolCalls(house.worker({ tools }))).toMatchObject({ calls: 20 });
  expect(tools.asked).toHaveLength(20);
  const [bucket] = await house.rows<{ tokens: number }>('select tokens from tool_bucket');
  expect(bucket?.tokens).toBeLessThan(20);
});
