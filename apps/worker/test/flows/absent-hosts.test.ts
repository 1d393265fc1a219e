import type {} from '../../../../test/global-setup.ts';
import { afterEach, beforeEach, expect, inject, test, vi } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { serve } from '../../../net-host/test/support/net-hosts.ts';
import { runToolCalls } from '../../src/flows/run-tool-calls/run-tool-calls.ts';
import { call, openHouse, type House } from './house.ts';
import { addTool, openRealHosts, type RealHosts } from './real-hosts.ts';

// Seconds on an idle machine.
vi.setConfig({ testTimeout: 120_000 });

const NOTHING = '/nonexistent/node';
const module = (effects: string): string => `
export const description = 'Tells its name.';
export const parameters = { type: 'object', properties: { what: { type: 'string' } } };
export const sideEffects = '${effects}';
export const run = ({ what }) => 'done ' + what;`;

let house: House;
let hosts: RealHosts;
let netHostPath: string;
/** Requests that reached the service. */
let asked: number;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  netHostPath = NOTHING;
  hosts = await openRealHosts(house.database.db, {
    modules: { quick: module('none') },
    netHostPath: () => netHostPath,
  });
  asked = 0;
  const { url } = await serve((_, response) => {
    asked += 1;
    response.end('fetched');
  });
  for (const side_effects of ['none', 'idempotent', 'once'] as const) {
    const source = { http: { method: 'POST', url } };
    await addTool(house.database.db, { name: `http_${side_effects}`, kind: 'http', side_effects, source });
  }
});
afterEach(async () => {
  await hosts.close();
  await house.close();
});

/** Runs the flows until the condition holds; the batch must not end before. */
async function driveUntil(worker: FlowDeps, condition: () => Promise<boolean>): Promise<void> {
  for (let round = 0; round < 1_000; round++) {
    if (await condition()) return;
    await expect(house.drive(worker, { rounds: 1 })).rejects.toThrow('have not ended');
  }
  throw new Error(`Still false after 1,000 rounds: ${String(condition)}`);
}

const HTTP = ['http_none', 'http_idempotent', 'http_once'];

test('runs whose host does not start wait, while calls of other hosts go on', async () => {
  const tools = ['quick', ...HTTP];
  const batch = await house.submit([
    { input: call('quick', { what: 'alone' }), tools },
    { input: HTTP.map((tool, index) => call(tool, {}, index > 0)).join('\n'), tools },
    { input: [call('quick', { what: 'beside' }), call('http_once', {}, true)].join('\n'), tools },
  ]);
  const worker = house.worker({ runners: hosts.runners });
  const states = async () => (await house.runsOf(batch.id)).map(({ state }) => state);
  await driveUntil(worker, async () => {
    const [first, ...others] = await states();
    return first === 'completed' && others.every((state) => state === 'acting');
  });
  // The result beside a waiting call is stored, and no call is in doubt.
  expect(
    await house.rows('select state, count(*)::int as calls from tool_call group by 1 order by 1'),
  ).toEqual([
    { state: 'pending', calls: 4 },
    { state: 'succeeded', calls: 2 },
  ]);
  expect(await house.rows('select cardinality(run_ids) as runs, lease_owner from run_chunk')).toEqual([
    { runs: 2, lease_owner: null },
  ]);

  netHostPath = process.execPath;
  await house.drive(worker, { hasten: true, rounds: 100_000 });
  expect(await states()).toEqual(['completed', 'completed', 'completed']);
  expect(asked).toBe(4);
  expect(await house.rows(`select 1 from tool_call where state <> 'succeeded'`)).toEqual([]);
});

test('a host that does not start is tried again with a growing delay', async () => {
  await house.submit([{ input: call('http_none', {}), tools: HTTP }]);
  const worker = house.worker({ runners: hosts.runners });
  const putOff = async () => (await house.rows(`select 1 from run_chunk where kind = 'tools'`)).length > 0;
  await driveUntil(worker, putOff);
  const delays: number[] = [];
  while (delays.length < 2) {
    await house.hasten();
    const report = await runToolCalls(worker);
    expect(report).toMatchObject({ worked: true, outcome: 'put off', put_off: 1 });
    expect(report['reason']).toContain('The tool host does not take calls.');
    const delayMs = report.again_in_ms ?? 0;
    if (delayMs > (delays.at(-1) ?? 0)) delays.push(delayMs);
  }
});

test('only modules count as quick tools', async () => {
  netHostPath = process.execPath;
  const policy = { calls_min: 1, mean_ms_max: 60_000, call_ms_max: 60_000 };
  const quickTools = { ...policy, result_chars_max: 50_000, chunk_ms_max: 60_000 };
  const tools = ['quick', ...HTTP];
  const input = [call('quick', {}), call('http_none', {}, true)].join('\n');
  await house.submit([{ input, tools }]);
  const worker = house.worker({ runners: hosts.runners, quickTools });
  await house.drive(worker, { rounds: 100_000 });
  expect(worker.quickTools.worthTrying('quick')).toBe(Infinity);
  expect(worker.quickTools.worthTrying('http_none')).not.toBe(Infinity);
});
