import type {} from '../../../../test/global-setup.ts';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test, vi } from 'vitest';
import { serve } from '../../../net-host/test/support/net-hosts.ts';
import { call, openHouse, script, type House, type Turn } from './house.ts';
import { addTool, openRealHosts, type RealHosts } from './real-hosts.ts';

// Seconds on an idle machine.
vi.setConfig({ testTimeout: 180_000 });

let house: House;
let hosts: RealHosts;
let dir: string;
/** A server on loopback that no call may reach. */
let canary: Awaited<ReturnType<typeof serve>>;

/** A module that writes each of its calls down. */
const module = (effects: string, effectsFile: string): string => `
import { appendFileSync } from 'node:fs';
export const description = 'Acts.';
export const parameters = {
  type: 'object',
  properties: { what: { type: 'string', maxLength: 100 } },
  required: ['what'],
  additionalProperties: false,
};
export const sideEffects = '${effects}';
export function run(args, { idempotencyKey: key }) {
  const { what, ...rest } = args;
  const polluted = Object.keys(Object.prototype).length > 0 || ({}).polluted !== undefined;
  appendFileSync('${effectsFile}', JSON.stringify({ tool: 'act_${effects}', what, rest, key, polluted }) + '\\n');
  return 'done ' + what;
}`;

/** Uploaded code that takes anything, and fetches what the model wants. */
const TAKES_ALL = `
export default async (what) => {
  const polluted = ({}).polluted !== undefined;
  let fetched = 'nothing';
  if (typeof what === 'string' && what.includes('://'))
    fetched = await fetch(what).then((answer) => 'ANSWERED ' + answer.status, (error) => 'refused: ' + error.message);
  return { kind: typeof what, polluted, fetched };
};`;

const EFFECTS = ['none', 'idempotent', 'once'] as const;
const TOOLS = [...EFFECTS.map((effects) => `act_${effects}`), 'take_all', 'metadata', 'loopback'];
const METADATA = 'http://169.254.169.254/latest/meta-data';

beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  dir = await mkdtemp(join(tmpdir(), 'nightshift-effects-'));
  await writeFile(join(dir, 'effects'), '');
  canary = await serve((_, response) => response.end('canary'));
  hosts = await openRealHosts(house.database.db, {
    allow_private: false,
    modules: Object.fromEntries(
      EFFECTS.map((effects) => [`act_${effects}`, module(effects, join(dir, 'effects'))]),
    ),
  });
  const { db } = house.database;
  // Only the guard of addresses refuses them then.
  const network = urlsOf(canary.url).flatMap((url) => URL.parse(url)?.host || []);
  await addTool(db, {
    ...{ name: 'take_all', kind: 'sandbox', code: TAKES_ALL },
    source: { parameters: ['what'], network },
  });
  const http = (url: string) => ({ http: { method: 'GET', url: `${url}/{{what}}` } });
  await addTool(db, { name: 'metadata', kind: 'http', source: http(METADATA) });
  await addTool(db, { name: 'loopback', kind: 'http', source: http(canary.url) });
});
afterEach(async () => {
  await hosts.close();
  await house.close();
  await rm(dir, { recursive: true });
});

interface Effect {
  readonly tool: string;
  readonly what: string;
  readonly rest: object;
  readonly key: string;
  readonly polluted: boolean;
}

interface Result {
  readonly content: string;
  readonly is_error?: boolean;
}

const effects = async (): Promise<readonly Effect[]> =>
  (await readFile(join(dir, 'effects'), 'utf8'))
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Effect);

/** Returns the results that the model received for its first answer. */
async function resultsOf(runId: string): Promise<readonly Result[]> {
  const [row] = await house.rows<{ content: readonly Result[] }>(
    `select content from message where run_id = $1 and role = 'user' and step_number = 1`,
    [runId],
  );
  return row?.content ?? [];
}

/** A script as JSON text: \`__proto__\` stays a key, and lone surrogates stay escapes. */
const raw = (steps: string): string => `⟦sim:sequence?since=directive&steps=${encodeURIComponent(steps)}⟧`;

const ODD_NAMES = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'act_once ',
  '../act_once',
  'ACT_ONCE',
];

interface Attack {
  readonly name: string;
  readonly input: string;
  /** Calls of modules that it may make. */
  readonly effects: number;
  /** Default: `end_turn`. */
  readonly stop_reason?: 'unusable_answer' | 'context_overflow' | 'loop_detected' | 'max_steps';
  /** Reads the results of the first answer. */
  readonly told?: (results: readonly Result[]) => void;
}

const allRefused =
  (count: number, why: RegExp) =>
  (results: readonly Result[]): void => {
    expect(results).toHaveLength(count);
    for (const { content, is_error } of results) {
      expect(is_error).toBe(true);
      expect(content).toMatch(why);
    }
  };

const once = (args: string, tool = 'act_once'): string => `{"tool":"${tool}","args":${args}}`;
/** Addresses inside private networks, and URLs that are none of HTTP. */
const urlsOf = (loopback: string): readonly string[] => {
  const { port } = new URL(loopback);
  return [
    `${METADATA}/iam`,
    'http://[fd00:ec2::254]/latest/meta-data/',
    `http://127.0.0.1:${port}/`,
    `http://localhost:${port}/`,
    `http://0x7f000001:${port}/`,
    `http://2130706433:${port}/`,
    `http://[::1]:${port}/`,
    `http://[::ffff:127.0.0.1]:${port}/`,
    `http://user:secret@127.0.0.1:${port}/`,
    'file:///etc/passwd',
    'data://text/plain,hello',
  ];
};

const attacks = (): readonly Attack[] => [
  {
    name: 'tools that do not exist',
    input: script([{ tool: 'summon_daemon' }, ...ODD_NAMES.map((tool) => ({ tool, args: { what: 'x' } }))], {
      text: 'Done.',
    }),
    effects: 0,
    told: allRefused(1 + ODD_NAMES.length, /Tool not found/),
  },
  {
    name: 'a name that cannot be sent back',
    input: script([{ tool: 'n'.repeat(300) }, { tool: 'act_once', args: { what: 'beside' } }]),
    effects: 0,
    stop_reason: 'unusable_answer',
  },
  {
    name: '1,000 calls in one answer',
    input: '⟦sim:parallel?k=1000&tools=act_none,act_once,act_idempotent,take_all⟧',
    effects: 750,
    told: (results) => expect(results.filter(({ is_error }) => is_error !== true)).toHaveLength(1_000),
  },
  {
    name: 'one id twice',
    input: `⟦sim:duplicateToolUse?tool=act_once&args=${encodeURIComponent('{"what":"twice"}')}⟧`,
    effects: 0,
    stop_reason: 'unusable_answer',
  },
  {
    name: 'keys of prototypes',
    input: raw(
      `[[${[
        once('{"__proto__":{"what":"inherited","polluted":true}}'),
        once('{"what":"a","__proto__":{"polluted":true}}'),
        once('{"what":"a","constructor":{"prototype":{"polluted":true}}}'),
        once('{"what":"a","toString":"x"}'),
        once('{"what":["a"]}'),
        once('{"what":null}'),
      ].join()}]]`,
    ),
    effects: 0,
    told: allRefused(6, /what|additional|propert/i),
  },
  {
    name: 'keys of prototypes for code that takes anything',
    input: raw(
      `[[${[
        once('{"what":{"__proto__":{"polluted":true}},"__proto__":{"polluted":true}}', 'take_all'),
        once('{"constructor":{"prototype":{"polluted":true}},"what":1}', 'take_all'),
      ].join()}]]`,
    ),
    effects: 0,
    told: (results) => {
      expect(results).toHaveLength(2);
      expect(JSON.stringify(results)).not.toContain('polluted\\":true');
    },
  },
  {
    name: 'arguments of 10 MB',
    input: '⟦sim:hugeArgs?bytes=10000000&tool=act_once⟧',
    effects: 0,
    stop_reason: 'context_overflow',
    told: allRefused(1, /what must NOT have more than 100 characters/),
  },
  {
    name: 'arguments of 10 MB for code that takes anything',
    input: '⟦sim:hugeArgs?bytes=10000000&tool=take_all⟧',
    effects: 0,
    stop_reason: 'context_overflow',
    told: allRefused(1, /too large/),
  },
  { name: 'arguments nested deeply', input: '⟦sim:deepArgs?levels=100&tool=act_once⟧', effects: 0 },
  {
    name: 'arguments nested too deeply to be sent back',
    input: '⟦sim:deepArgs?levels=1000&tool=take_all⟧',
    effects: 0,
    stop_reason: 'unusable_answer',
  },
  {
    name: 'invalid UTF-16',
    input: raw(
      `[[${[
        once('{"what":"a\\ud800b"}'),
        once('{"what":"\\udfff"}', 'act_idempotent'),
        once('{"\\ud800":"a","what":"a"}'),
        once('{"what":"\\u0000"}', 'act_none'),
        once('{"what":"\\udc00\\ud800"}', 'take_all'),
      ].join()}]]`,
    ),
    effects: 3,
  },
  {
    name: 'addresses for uploaded code',
    input: script(urlsOf(canary.url).map((what) => ({ tool: 'take_all', args: { what } }))),
    effects: 0,
    told: (results) => {
      expect(results).toHaveLength(urlsOf(canary.url).length);
      for (const { content } of results.slice(0, -3))
        expect(content).toContain(
          'refused: fetch: the request was refused: the address is inside a private network',
        );
      for (const { content } of results.slice(-3)) expect(content).toContain('refused: fetch: ');
    },
  },
  {
    name: 'addresses for HTTP tools',
    input: script(
      [
        'iam',
        '../../admin',
        '..',
        '@169.254.169.254/',
        '//127.0.0.1/',
        '%2e%2e',
        'x?y#z',
        'a\r\nHost: b',
      ].flatMap(
        (what): Turn & readonly unknown[] =>
          ['metadata', 'loopback'].map((tool) => ({ tool, args: { what } })) as Turn & readonly unknown[],
      ) as Turn,
    ),
    effects: 0,
    told: allRefused(16, /private|refused|argument/),
  },
  {
    name: 'calls without end',
    input: `⟦sim:infiniteTools?tool=act_once&args=${encodeURIComponent('{"what":"again"}')}⟧`,
    effects: 5,
    stop_reason: 'loop_detected',
  },
  {
    name: 'other calls without end',
    input: '⟦sim:infiniteTools?tool=act_once⟧',
    effects: 10,
    stop_reason: 'max_steps',
  },
];

test('a hostile model has no effect outside its policy, each of its runs ends with a reason, and its neighbours are unharmed', async () => {
  const all = attacks();
  const neighbour = (index: number) => ({
    input: [call('act_once', { what: `n${index}` }), call('take_all', { what: index }, true)].join('\n'),
    tools: TOOLS,
  });
  // Neighbours stand before, between and behind the attacks.
  const runs = all.flatMap(({ input }, index) => [neighbour(index), { input, tools: TOOLS, max_steps: 10 }]);
  const batch = await house.submit([...runs, neighbour(all.length)]);
  const worker = house.worker({
    runners: hosts.runners,
    settings: { line_bytes_max: 32_000_000, body_bytes_max: 256_000_000, requests_max: 10_000 },
  });
  await house.drive(worker, { rounds: 100_000, hasten: true });

  const ended = await house.runsOf(batch.id);
  const made = await effects();
  expect(made.filter(({ polluted, rest }) => polluted || Object.keys(rest).length > 0)).toEqual([]);
  expect(new Set(made.map(({ key }) => key)).size).toBe(made.length);
  expect(canary.seen.map(({ url }) => url)).toEqual([]);
  for (const [index, attack] of all.entries()) {
    const run = ended[2 * index + 1];
    const runId = batch.run_ids[2 * index + 1]!;
    expect({ name: attack.name, ...run }).toMatchObject({
      name: attack.name,
      stop_reason: attack.stop_reason ?? 'end_turn',
      error: run?.state === 'failed' ? { message: expect.stringMatching(/\w/) as string } : null,
    });
    const calls = await house.rows<{ made: number }>(
      `select count(*) filter (where state = 'succeeded' and tool_name like 'act\\_%')::int as made from tool_call where run_id = $1`,
      [runId],
    );
    expect({ name: attack.name, ...calls[0] }).toEqual({ name: attack.name, made: attack.effects });
    attack.told?.(await resultsOf(runId));
  }
  const neighbours = ended.filter((_, index) => index % 2 === 0);
  expect(new Set(neighbours.map(({ state }) => state))).toEqual(new Set(['completed']));
  const whats = made.map(({ what }) => what).filter((what) => /^n\d+$/.test(what));
  expect(whats.sort()).toEqual(neighbours.map((_, index) => `n${index}`).sort());
  expect(made).toHaveLength(neighbours.length + all.reduce((sum, attack) => sum + attack.effects, 0));
  expect(await auditInvariants(house.database.db)).toEqual([]);
});
