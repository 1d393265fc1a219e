import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAgent, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
/** Existing ids, so that the last part of a path is the wrong one. */
const existing: Record<string, string> = {};

beforeAll(async () => {
  api = await openApi();
  const agent = (existing['agent_id'] = await createAgent(api));
  const [block] = (await api.call('GET', `/v1/agents/${agent}/core-memory/blocks`)).body;
  existing['block_id'] = block.id;
});
afterAll(() => api.close());

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
interface Operation {
  readonly requestBody?: unknown;
}
const document = JSON.parse(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8')) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};

/** Bodies of routes that need one, by the end of their path. */
const BODIES: Readonly<Record<string, unknown>> = {
  'PATCH /v1/batches/{job_id}': { max_cost_usd: 1 },
  'PATCH /v1/messages/batches/{job_id}': { max_cost_usd: 1 },
  'POST /v1/runs/{run_id}/tool-results': { approvals: [{ tool_call_id: 'toolu_1', approve: true }] },
  'POST /v1/agents/{agent_id}/messages/append': { messages: [{ role: 'user', content: 'a' }] },
  'PATCH /v1/messages/batches/{job_id}/held-changes/{change_id}': { value: 'a' },
  'POST /v1/blocks/{block_id}/revert': { revision: 1 },
  'PATCH /v1/agents/{agent_id}/tools/approval/{tool_name}': { requires_approval: true },
  'POST /v1/mcp-servers/{mcp_server_id}/approve': {
    tools: [{ name: 'look', definition_sha256: 'a'.repeat(64) }],
  },
};
const QUERIES: Readonly<Record<string, string>> = { 'GET /v1/blocks/{block_id}/diff': '?from=1' };

/** Values of parts that are no id. */
const NAMES: Readonly<Record<string, string>> = {
  label: 'none',
  name: 'none',
  tool_name: 'none',
  revision: '7',
};
const PREFIXES: Readonly<Record<string, string>> = {
  agent_id: 'agent',
  block_id: 'block',
  tool_id: 'tool',
  run_id: 'run',
  step_id: 'step',
  job_id: 'job',
  schedule_id: 'schedule',
  worker_id: 'worker',
  change_id: 'block',
  mcp_server_id: 'mcp_server',
};

/** Operations that create what their path names. */
const CREATES: readonly string[] = ['PUT /v1/secrets/{name}'];

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  path.includes('{')
    ? Object.entries(methods).map(([method, { requestBody }]) => {
        const name = `${method.toUpperCase()} ${path}`;
        const body = BODIES[name] ?? (requestBody === undefined ? undefined : {});
        return { method: method.toUpperCase() as Method, path, name, body, query: QUERIES[name] ?? '' };
      })
    : [],
);

/** Fills in a path's parameters. */
function fill(path: string, valueOf: (name: string, isLast: boolean) => string): string {
  const last = path.lastIndexOf('{');
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string, at: number) => valueOf(name, at === last));
}

test.each(operations.filter(({ name }) => !CREATES.includes(name)))(
  '$name answers 404 for each wrong id or name',
  async ({ method, path, body, query }) => {
    const unknown = (name: string): string => NAMES[name] ?? `${PREFIXES[name]}-${UNKNOWN_UUID}`;
    const urls = new Set([
      fill(path, unknown),
      fill(path, (name, isLast) => (isLast ? unknown(name) : (existing[name] ?? unknown(name)))),
    ]);
    // A cursor without runs begins where it is moved.
    const isNew = path.endsWith('/cursors/{name}/rewind');
    for (const url of isNew ? [...urls].slice(0, 1) : urls) {
      const answer = await api.call(method, url + query, body);
      expect([url, answer.status, answer.body.code]).toEqual([url, 404, 'not_found']);
    }
  },
);

test.each(operations)(
  '$name answers 422 for a malformed id, and names it',
  async ({ method, path, body, query }) => {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
    for (const wrong of names.filter((name) => name in PREFIXES || name === 'revision')) {
      for (const text of ['nonsense', UNKNOWN_UUID, `other-${UNKNOWN_UUID}`]) {
        const url = fill(path, (name) =>
          name === wrong ? text : (existing[name] ?? NAMES[name] ?? `${PREFIXES[name]}-${UNKNOWN_UUID}`),
        );
        const answer = await api.call(method, url + query, body);
        expect([url, answer.status, answer.body.code, answer.body.errors[0]?.path]).toEqual([
          url,
          422,
          'validation_failed',
          wrong,
        ]);
      }
    }
  },
);

test('an id of another kind is told as such, in a path, a query and a body', async () => {
  const run = `run-${UNKNOWN_UUID}`;
  const agent = existing['agent_id'] ?? '';
  for (const [answer, kind] of [
    [await api.call('GET', `/v1/batches/${run}`), 'a batch (job-…)'],
    [await api.call('GET', `/v1/runs?agent_id=${run}`), 'an agent (agent-…)'],
    [
      await api.call('POST', '/v1/batches', { requests: [{ agent_id: run, input: 'Hi.' }] }),
      'an agent (agent-…)',
    ],
  ] as const) {
    expect(answer.status).toBe(422);
    expect(answer.body.errors[0].message).toBe(`${run} is a run; this takes ${kind}`);
    expect(answer.body.detail).toContain(`${run} is a run; this takes ${kind}`);
  }
  const { body } = await api.call('GET', `/v1/runs/${agent.toUpperCase()}`);
  expect(body.errors[0].message).toBe('must be run-<uuid>, in lower case');
});

test.each([
  ['an unknown model', 'anthropic/claude-9'],
  ['another provider', 'openai/gpt-4'],
  ['a name without provider', 'claude-haiku-4-5'],
])('%s is 422 and lists the known models', async (_, model) => {
  const known = (await api.call('GET', '/v1/models')).body.map(({ handle }: { handle: string }) => handle);
  const agent = existing['agent_id'] ?? '';
  for (const answer of [
    await api.call('POST', '/v1/agents', { model }),
    await api.call('PATCH', `/v1/agents/${agent}`, { model }),
    await api.call('POST', '/v1/batches', { agents: { ids: [agent] }, input: 'Hello.', model }),
  ]) {
    expect([answer.status, answer.body.code]).toEqual([422, 'validation_failed']);
    expect(answer.body.errors[0].path).toMatch(/\/model$/);
    for (const handle of known) expect(answer.body.detail).toContain(handle);
  }
});
