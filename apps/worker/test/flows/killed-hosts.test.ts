import type {} from '../../../../test/global-setup.ts';
import type { ServerResponse } from 'node:http';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test, vi } from 'vitest';
import { serve } from '../../../net-host/test/support/net-hosts.ts';
import { call, openHouse, type House } from './house.ts';
import { addTool, openRealHosts, type RealHosts } from './real-hosts.ts';

// Seconds on an idle machine.
vi.setConfig({ testTimeout: 120_000 });

const EFFECTS = ['idempotent', 'once'] as const;
type Effects = (typeof EFFECTS)[number];

/** A module that tells the service of its call. */
const module = (effects: Effects, url: string, exports = ''): string => `
export const description = 'Tells the service.';
export const parameters = { type: 'object', properties: { what: { type: 'string' } } };
export const sideEffects = '${effects}';
export const timeoutMs = 120000;
${exports}
export const run = async ({ what }) => (await fetch('${url}/' + what)).text();`;

/** Calls that the service answers before it lets the others wait. */
const ANSWERED = 60;

let house: House;
let hosts: RealHosts;
let url: string;
/** Requests at the service by call. */
let asked: Map<string, number>;
let held: ServerResponse[];
/** Called at each request that waits. */
let onHeld: () => void;
/** Whether the service answers all. */
let isOpen: boolean;

beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  [asked, held, isOpen] = [new Map(), [], false];
  ({ url } = await serve(({ url: path = '' }, response) => {
    asked.set(path, (asked.get(path) ?? 0) + 1);
    // The first that waits must run once only, so that the kill leaves one in doubt.
    const isTooEarly = held.length === 0 && EFFECTS[Number(path.split('-')[1]) % 2] !== 'once';
    if (isOpen || asked.size <= ANSWERED || isTooEarly) {
      response.end(`done ${path}`);
      return;
    }
    held.push(response);
    onHeld();
  }));
  const byEffects = (name: string, exports?: string) =>
    EFFECTS.map((effects) => [`${name}_${effects}`, module(effects, url, exports)]);
  hosts = await openRealHosts(house.database.db, {
    modules: Object.fromEntries([
      ...byEffects('module'),
      ...byEffects('waiting', 'export const concurrency = 500;'),
    ]) as Record<string, string>,
  });
  for (const side_effects of EFFECTS) {
    const http = { method: 'POST', url: `${url}/{{what}}` };
    const parameters = { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] };
    const tool = { side_effects, input_schema: parameters };
    await addTool(house.database.db, {
      ...{ ...tool, name: `http_${side_effects}`, kind: 'http' },
      source: { http },
    });
    await addTool(house.database.db, {
      ...{ ...tool, name: `sandbox_${side_effects}`, kind: 'sandbox' },
      code: `export default async (what) => (await fetch('${url}/' + what)).text();`,
      source: { parameters: ['what'], network: [new URL(url).host] },
    });
  }
});
afterEach(async () => {
  await hosts.close();
  await house.close();
});

interface Ended {
  readonly name: Effects;
  readonly state: string;
  /** The result as the model received it. */
  readonly result: { readonly content: string; readonly is_error?: boolean };
  readonly what: string;
}

test.each([
  ['the tool host', 'module', 2, () => Promise.resolve(hosts.toolHost)],
  ['the net host, with HTTP tools', 'http', 20, () => hosts.netHost.get()],
  ['the net host, with modules that wait', 'waiting', 20, () => hosts.netHost.get()],
  ['the sandbox host', 'sandbox', 2, () => hosts.sandboxHost.get()],
] as const)(
  '%s is killed in the middle of 200 calls: all runs end, and no call that must run once is repeated',
  async (_, kind, heldMin, getHost) => {
    const batch = await house.submit(
      Array.from({ length: 200 }, (__, index) => {
        const tool = `${kind}_${EFFECTS[index % 2]!}`;
        return { input: call(tool, { what: `call-${index}` }), tools: [tool] };
      }),
    );
    let killed: number | undefined;
    onHeld = () => {
      if (killed !== undefined || held.length < heldMin) return;
      killed = 0;
      void getHost().then((host) => {
        killed = host.pid()!;
        isOpen = true;
        process.kill(killed, 'SIGKILL');
      });
    };
    const worker = house.worker({ runners: hosts.runners, settings: { chunk_lines: 1_000 } });
    await house.drive(worker, { rounds: 100_000 });

    expect(new Set((await house.runsOf(batch.id)).map(({ state }) => state))).toEqual(new Set(['completed']));
    const calls = await house.rows<Ended>(
      `select split_part(c.tool_name, '_', 2) as name, c.state, m.content -> 0 as result, '/call-' || r.ordinal as what
         from tool_call c join run r on r.id = c.run_id
         join message m on m.run_id = r.id and m.role = 'user' and m.step_number = 1
        where r.batch_id = $1 order by r.ordinal`,
      [batch.id],
    );
    expect(calls).toHaveLength(200);
    for (const { name, state, what, result } of calls) {
      const times = asked.get(what) ?? 0;
      if (state === 'succeeded') {
        expect(result).toEqual(expect.objectContaining({ content: `done ${what}` }));
        expect(times).toBeGreaterThanOrEqual(1);
        expect(times).toBeLessThanOrEqual(name === 'once' ? 1 : 2);
        continue;
      }
      expect({ name, state, is_error: result.is_error }).toEqual({
        ...{ name: 'once', state: 'unknown', is_error: true },
      });
      expect(result.content).toMatch(/may or may not have taken effect.*not run again/);
      expect(times).toBeLessThanOrEqual(1);
    }
    expect(calls.some(({ state }) => state === 'unknown')).toBe(true);
    expect((await getHost()).pid()).not.toBe(killed);
    expect(await auditInvariants(house.database.db)).toEqual([]);
  },
);
